"""Convert faults of documents and bindings into HTTP problems."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from control_domain.configurations.documents.bindings import BadBindings
from control_domain.configurations.documents.read_document import BadConfiguration
from control_domain.documents.faults import DocumentFault, Fault
from control_domain.sealing import CannotOpen
from pipeline_contracts.errors import FieldError, InvalidInput, Unavailable


@contextmanager
def converting_document_faults(
    member: str, find_more: Callable[[DocumentFault], Sequence[FieldError]] = lambda _: ()
) -> Iterator[None]:
    """Convert `DocumentFault` into `InvalidInput` with the path and line of every fault.

    `member`: the body's member that holds the document's text. `find_more` returns errors outside the document.
    """
    try:
        yield
    except DocumentFault as error:
        raise InvalidInput(
            "Nothing was changed. Fix the places listed below and send the document again.",
            errors=[*(_describe_fault(fault, member) for fault in error.faults), *find_more(error)],
        ) from error


def _describe_fault(fault: Fault, member: str) -> FieldError:
    # In a document that is a list, paths begin with an index.
    dot = "." if fault.path and not fault.path.startswith("[") else ""
    return FieldError(f"{member}{dot}{fault.path}", f"line {fault.line}: {fault.message}", fault.line)


@contextmanager
def converting_configuration_faults() -> Iterator[None]:
    """Convert faults of a configuration and its bindings into `InvalidInput`, and `CannotOpen` into `Unavailable`."""
    try:
        with converting_document_faults("document", _find_binding_errors):
            yield
    except BadBindings as error:
        raise InvalidInput(
            "Nothing was changed. Fix the bindings listed below and send the request again.",
            errors=_describe_bindings(error.faults),
        ) from error
    except CannotOpen as error:
        raise Unavailable("The project's variables cannot be opened here now.", retry_after=60) from error


def _find_binding_errors(fault: DocumentFault) -> Sequence[FieldError]:
    return _describe_bindings(fault.binding_faults) if isinstance(fault, BadConfiguration) else ()


def _describe_bindings(faults: Sequence[tuple[str, str]]) -> list[FieldError]:
    return [FieldError(f"bindings.{name}" if name else "bindings", reason) for name, reason in faults]
