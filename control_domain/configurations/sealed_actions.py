"""Actions with their secrets as reviews and run steps store them: sealed for one project.

Digests of variables depend on the sealing key: those of actions sealed with an older key are translated.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.configurations.addresses import read_address, write_address
from control_domain.configurations.plan import Action, Change
from control_domain.configurations.project_state import read_project_state
from control_domain.configurations.resources import ProjectState, Secret, Value
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.projects import Project

_SECRET = "digest"


def seal_actions(keys: SealingKeys, actions: Sequence[Action], project_id: str) -> Sealed:
    """Seal the actions for the project with this public ID."""
    plain = json.dumps([_to_plain(action) for action in actions], separators=(",", ":"))
    return keys.seal({"actions": plain}, project_id)


def open_actions(keys: SealingKeys, sealed: Sealed, project_id: str) -> Sequence[Action]:
    """Return the actions that `seal_actions` sealed. Raises `CannotOpen`."""
    return [_from_plain(plain) for plain in json.loads(keys.open(sealed, project_id)["actions"])]


def _to_plain(action: Action) -> list[Any]:
    changes = [
        [change.field, _value_to_plain(change.before), _value_to_plain(change.after), change.is_masked]
        for change in action.changes
    ]
    return [action.verb, write_address(action.address), changes]


def _from_plain(plain: Sequence[Any]) -> Action:
    verb, address, plain_changes = plain
    changes = [
        Change(field, _value_from_plain(before), _value_from_plain(after), is_masked)
        for field, before, after, is_masked in plain_changes
    ]
    return Action(verb, read_address(address), changes)


def _value_to_plain(value: Value) -> Any:
    return {_SECRET: value.digest, "value": value.value} if isinstance(value, Secret) else value


def _value_from_plain(plain: Any) -> Value:
    if isinstance(plain, dict) and _SECRET in plain:
        return Secret(plain[_SECRET], plain["value"])
    value: Value = plain
    return value


@dataclass(frozen=True, slots=True)
class DigestTranslation:
    """Translates digests of an older sealing key into those of the current one, for one project."""

    old: ProjectState
    """The project's current state with digests of the older key."""
    current: ProjectState
    """The same state with digests of the current key."""
    digest: Callable[[str], str]
    """Returns the digest of a value with the current key."""

    def translate_fingerprint(self, fingerprint: str) -> str:
        """Translate the fingerprint of the project's current state; return any other one unchanged."""
        return self.current.fingerprint() if fingerprint == self.old.fingerprint() else fingerprint

    def translate_actions(self, actions: Sequence[Action]) -> Sequence[Action]:
        """Return the actions with translated digests. The digest of a value that the project no longer has is kept: it
        equals no current digest."""
        digests = dict(self._pair_digests())
        return [
            replace(action, changes=[self._translate_change(change, digests) for change in action.changes])
            for action in actions
        ]

    def _pair_digests(self) -> Sequence[tuple[str, str]]:
        return [
            (value.digest, current.digest)
            for address, resource in self.old.resources.items()
            for field, value in resource.fields.items()
            if isinstance(value, Secret)
            and address in self.current.resources
            and isinstance(current := self.current.resources[address].fields.get(field), Secret)
        ]

    def _translate_change(self, change: Change, digests: Mapping[str, str]) -> Change:
        before, after = (self._translate_value(value, digests) for value in (change.before, change.after))
        return replace(change, before=before, after=after)

    def _translate_value(self, value: Value, digests: Mapping[str, str]) -> Value:
        if not isinstance(value, Secret):
            return value
        if value.value is not None:
            return Secret(self.digest(value.value), value.value)
        return Secret(digests.get(value.digest, value.digest))


async def read_digest_translation(
    session: AsyncSession, keys: SealingKeys, project: Project, key_id: str
) -> DigestTranslation:
    """Return the translation from the digests of this key, which may be the current one. Raises `CannotOpen` if the key
    is missing, and the errors of `read_project_state`."""
    current = await read_project_state(session, keys, project)
    old = current
    if not keys.is_current(key_id):
        old = await read_project_state(session, keys.with_current_key(key_id), project)
    return DigestTranslation(old, current, lambda value: keys.digest(value, project.public_id))


async def open_with_current_digests(
    session: AsyncSession, keys: SealingKeys, project: Project, sealed: Sealed
) -> Sequence[Action]:
    """Open sealed actions and translate their digests to the current key. Raises the errors of
    `read_digest_translation`."""
    actions = open_actions(keys, sealed, project.public_id)
    if keys.is_current(sealed.key_id):
        return actions
    translation = await read_digest_translation(session, keys, project, sealed.key_id)
    return translation.translate_actions(actions)
