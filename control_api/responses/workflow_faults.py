"""How the API turns a document down."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from control_domain.documents.faults import DocumentFault, Fault
from pipeline_contracts.errors import FieldError, InvalidInput


@contextmanager
def refusing_document(
    member: str, find_more: Callable[[DocumentFault], Sequence[FieldError]] = lambda _: ()
) -> Iterator[None]:
    """What is wrong with a document of any kind is `InvalidInput`, with every fault's place and line. `member` is where
    the body has the document's text; `find_more` adds what is wrong beside the document."""
    try:
        yield
    except DocumentFault as error:
        raise InvalidInput(
            "Nothing was changed. Mend the places below and send it again.",
            errors=[*(_refuse(fault, member) for fault in error.faults), *find_more(error)],
        ) from error


def _refuse(fault: Fault, member: str) -> FieldError:
    # A document that is a list begins its paths with an index.
    dot = "." if fault.path and not fault.path.startswith("[") else ""
    return FieldError(f"{member}{dot}{fault.path}", f"line {fault.line}: {fault.message}", fault.line)
