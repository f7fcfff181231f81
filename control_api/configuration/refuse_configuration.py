"""How the API turns a configuration down."""

from collections.abc import Iterator
from contextlib import contextmanager

from control_api.configuration.documents.bindings import BadBindings
from control_api.variables.sealing import CannotOpen
from control_api.workflows.refuse_document import refusing_document
from pipeline_contracts.errors import FieldError, InvalidInput, Unavailable


@contextmanager
def refusing_configuration() -> Iterator[None]:
    """What is wrong with the document or its bindings is `InvalidInput`, with every place."""
    try:
        with refusing_document("document"):
            yield
    except BadBindings as error:
        raise InvalidInput(
            "Nothing was changed. Mend the bindings below and send it again.",
            errors=[
                FieldError(f"bindings.{name}" if name else "bindings", why) for name, why in error.faults
            ],
        ) from error
    except CannotOpen as error:
        raise Unavailable("The project's variables cannot be opened here now.", retry_after=60) from error
