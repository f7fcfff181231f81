"""Actions with their secrets, as reviews and operations keep them: sealed, for one project."""

import json
from collections.abc import Sequence
from typing import Any

from control_domain.configurations.addresses import read_address, write_address
from control_domain.configurations.plan import Action, Change
from control_domain.configurations.values import Secret, Value
from control_domain.sealing import Sealed, SealingKeys

_SECRET = "digest"


def seal_actions(keys: SealingKeys, actions: Sequence[Action], project_id: str) -> Sealed:
    """The actions, sealed for the project with this public ID."""
    plain = json.dumps([_to_plain(action) for action in actions], separators=(",", ":"))
    return keys.seal({"actions": plain}, project_id)


def open_actions(keys: SealingKeys, sealed: Sealed, project_id: str) -> Sequence[Action]:
    """What `seal_actions` sealed. Raises `CannotOpen`."""
    return [_from_plain(one) for one in json.loads(keys.open(sealed, project_id)["actions"])]


def _to_plain(action: Action) -> list[Any]:
    changes = [
        [change.field, _value_to_plain(change.before), _value_to_plain(change.after), change.is_masked]
        for change in action.changes
    ]
    return [action.verb, write_address(action.address), changes]


def _from_plain(plain: Sequence[Any]) -> Action:
    verb, address, changes = plain
    read = [
        Change(field, _value_from_plain(before), _value_from_plain(after), is_masked)
        for field, before, after, is_masked in changes
    ]
    return Action(verb, read_address(address), read)


def _value_to_plain(value: Value) -> Any:
    return {_SECRET: value.digest, "value": value.value} if isinstance(value, Secret) else value


def _value_from_plain(plain: Any) -> Value:
    if isinstance(plain, dict) and _SECRET in plain:
        return Secret(plain[_SECRET], plain["value"])
    value: Value = plain
    return value
