"""How the API turns a configuration down."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from control_api.responses.workflow_faults import refusing_document
from control_domain.configurations.documents.bindings import BadBindings
from control_domain.configurations.documents.faults import BadConfiguration
from control_domain.documents.faults import DocumentFault
from control_domain.sealing import CannotOpen
from pipeline_contracts.errors import FieldError, InvalidInput, Unavailable


@contextmanager
def refusing_configuration() -> Iterator[None]:
    """What is wrong with the document or its bindings is `InvalidInput`, with every place."""
    try:
        with refusing_document("document", _find_binding_errors):
            yield
    except BadBindings as error:
        raise InvalidInput(
            "Nothing was changed. Mend the bindings below and send it again.",
            errors=_name_bindings(error.faults),
        ) from error
    except CannotOpen as error:
        raise Unavailable("The project's variables cannot be opened here now.", retry_after=60) from error


def _find_binding_errors(fault: DocumentFault) -> Sequence[FieldError]:
    return _name_bindings(fault.binding_faults) if isinstance(fault, BadConfiguration) else ()


def _name_bindings(faults: Sequence[tuple[str, str]]) -> list[FieldError]:
    return [FieldError(f"bindings.{name}" if name else "bindings", why) for name, why in faults]
