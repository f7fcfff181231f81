"""How a delivery is refused that does not say what its event has to."""

from pipeline_contracts.errors import FieldError, PayloadNotUsable


def unusable(
    field: str, message: str, advice: str = "Send what the Git host sends for this event."
) -> PayloadNotUsable:
    """`field` is a header, a path in the body (`push.changes[0].new.name`), or `body` for the whole of it."""
    return PayloadNotUsable(f"{field} {message}. {advice}", errors=[FieldError(field, message)])
