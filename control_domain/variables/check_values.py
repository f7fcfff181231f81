"""Checks single variables: names, values and totals. No error repeats a value, or a name that is not valid."""

from collections.abc import Iterable, Mapping, Sequence

from control_domain.variables.dotenv import BAD_NAME, MAX_TEXT_BYTES, MAX_VARIABLES, NAME, find_value_fault
from pipeline_contracts.errors import Conflict, FieldError, InvalidInput, NotFound


def check_update(values: Mapping[str, str], removed: Sequence[str]) -> None:
    """Raise `InvalidInput` with every fault of variables to set (field `set`) and to remove (field `unset`)."""
    errors = [
        *_find_bad_names("set", values),
        *_find_bad_names("unset", removed),
        *(
            FieldError(f"set.{name}", f"is not possible: {fault}")
            for name, value in values.items()
            if NAME.fullmatch(name) and (fault := find_value_fault(name, value))
        ),
        *(
            FieldError(f"unset.{name}", "is set by the same request")
            for name in removed
            if name in values and NAME.fullmatch(name)
        ),
    ]
    if not values and not removed:
        errors.append(FieldError("set", "must name a variable, unless unset does"))
    if errors:
        raise InvalidInput(
            "Nothing was changed. Fix the fields listed below and send the request again.", errors=errors
        )


def _find_bad_names(field: str, names: Iterable[str]) -> list[FieldError]:
    return [
        FieldError(field, f"number {number} is not the name of a variable: {BAD_NAME}")
        for number, name in enumerate(names, 1)
        if NAME.fullmatch(name) is None
    ]


def check_value(name: str, value: str) -> None:
    """Raise `InvalidInput` (field `value`) if a process cannot have this variable."""
    fault = find_value_fault(name, value)
    if fault is not None:
        raise InvalidInput(
            "Nothing was changed. Fix the field listed below and send the request again.",
            errors=[FieldError("value", f"is not possible: {fault}")],
        )


def check_new_name(name: str) -> None:
    """Raise `InvalidInput` for a name that no variable can have."""
    if NAME.fullmatch(name) is None:
        raise InvalidInput(
            "Nothing was changed. The address names no variable.",
            errors=[FieldError("variable", f"is not the name of a variable: {BAD_NAME}")],
        )


def check_is_set(name: str, values: Mapping[str, str]) -> None:
    """Raise `NotFound` if there is no variable of this name."""
    if name not in values:
        raise NotFound("The environment has no variable of this name.")


def check_total(values: Mapping[str, str]) -> None:
    """Raise `Conflict` if these are too many or too large for all variables of one environment."""
    if len(values) > MAX_VARIABLES:
        raise Conflict(
            f"The environment would have {len(values)} variables, and may have {MAX_VARIABLES}. Remove some first."
        )
    size = sum(len(f"{name}={value}\n".encode()) for name, value in values.items())
    if size > MAX_TEXT_BYTES:
        raise Conflict(
            f"The variables of the environment would have {size} bytes, and may have {MAX_TEXT_BYTES}. Remove some "
            "first."
        )
