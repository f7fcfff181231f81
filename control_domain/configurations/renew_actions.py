"""Digests of variables come with the key that seals: what was planned under an older key is told by that one's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.configurations.plan import Action, Change
from control_domain.configurations.read_state import read_state
from control_domain.configurations.sealed_actions import open_actions
from control_domain.configurations.state import ProjectState
from control_domain.configurations.values import Secret, Value
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.projects import Project


@dataclass(frozen=True, slots=True)
class Renewal:
    """A project as it is, by the digests of an older key (`was`) and by those of the present one (`present`)."""

    was: ProjectState
    present: ProjectState
    digest: Callable[[str], str]
    """The present one of a value."""

    def renew_fingerprint(self, fingerprint: str) -> str:
        """The present one of the same project; another one stays what it is."""
        return self.present.fingerprint() if fingerprint == self.was.fingerprint() else fingerprint

    def renew(self, actions: Sequence[Action]) -> Sequence[Action]:
        """The same actions by present digests. What is not in the project any more stays what it is, and is nothing
        that there could be."""
        digests = dict(self._pairs())
        return [
            replace(action, changes=[self._renew_change(change, digests) for change in action.changes])
            for action in actions
        ]

    def _pairs(self) -> Sequence[tuple[str, str]]:
        return [
            (value.digest, other.digest)
            for address, resource in self.was.resources.items()
            for field, value in resource.fields.items()
            if isinstance(value, Secret)
            and address in self.present.resources
            and isinstance(other := self.present.resources[address].fields.get(field), Secret)
        ]

    def _renew_change(self, change: Change, digests: Mapping[str, str]) -> Change:
        before, after = (self._renew_value(value, digests) for value in (change.before, change.after))
        return replace(change, before=before, after=after)

    def _renew_value(self, value: Value, digests: Mapping[str, str]) -> Value:
        if not isinstance(value, Secret):
            return value
        if value.value is not None:
            return Secret(self.digest(value.value), value.value)
        return Secret(digests.get(value.digest, value.digest))


async def read_renewal(session: AsyncSession, keys: SealingKeys, project: Project, key_id: str) -> Renewal:
    """From this key to the present one, which it may be itself. Raises `CannotOpen` where it is not there any more,
    and what `read_state` raises."""
    present = await read_state(session, keys, project)
    was = present
    if not keys.is_current(key_id):
        was = await read_state(session, keys.as_of(key_id), project)
    return Renewal(was, present, lambda value: keys.digest(value, project.public_id))


async def open_anew(
    session: AsyncSession, keys: SealingKeys, project: Project, sealed: Sealed
) -> Sequence[Action]:
    """What `seal_actions` sealed, by present digests. Raises what `read_renewal` raises."""
    actions = open_actions(keys, sealed, project.public_id)
    if keys.is_current(sealed.key_id):
        return actions
    return (await read_renewal(session, keys, project, sealed.key_id)).renew(actions)
