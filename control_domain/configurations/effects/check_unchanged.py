"""Whether what there is now is what the plan has seen. All of it is told by field: no value is in any message."""

from collections.abc import Mapping, Sequence

from control_domain.configurations.effects.task import CannotCarryOut, Task
from control_domain.configurations.plan import Change
from control_domain.configurations.values import Value

_MOST_NAMED = 5


def find_due(task: Task, present: Mapping[str, Value]) -> Sequence[Change]:
    """The changes that are still to be made: those of which nothing has been made yet.

    `present` has the resource's fields, which nobody else can change any more. Raises `CannotCarryOut` where one is
    neither what it was nor what it is to be.
    """
    changes = task.action.changes
    _check(task, [one.field for one in changes if present.get(one.field) not in (one.before, one.after)])
    return [one for one in changes if present.get(one.field) != one.after]


def check_made(task: Task, present: Mapping[str, Value]) -> None:
    """That what was to be made, and is there, is as it was to be. Raises `CannotCarryOut`."""
    others = [one.field for one in task.action.changes if present.get(one.field) != one.after]
    if others:
        raise CannotCarryOut(
            f"{task.called} is there already, with another {_name(others)}; make a new review."
        )


def check_removable(task: Task, present: Mapping[str, Value]) -> None:
    """That what is to be removed has nothing that the plan has not seen. Raises `CannotCarryOut`."""
    before = {one.field: one.before for one in task.action.changes}
    _check(
        task, [field for field, value in present.items() if value is not None and value != before.get(field)]
    )


def _check(task: Task, others: Sequence[str]) -> None:
    if others:
        raise CannotCarryOut(f"{task.called} was changed meanwhile: {_name(others)}; make a new review.")


def _name(fields: Sequence[str]) -> str:
    more = f" and {len(fields) - _MOST_NAMED} more" if len(fields) > _MOST_NAMED else ""
    return f"{', '.join(fields[:_MOST_NAMED])}{more}"
