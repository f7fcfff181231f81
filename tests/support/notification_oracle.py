"""The messages that a sequence of changes must yield, found by a simple simulation in steps of ten seconds, without a
database.

The simulation repeats the rules of docs/reference/notifications.md, not the code: it checks a list of incidents per
group at every step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

STEP = 10
"""The length of a step in seconds. All times of the tests are multiples of it."""
START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)

SEVERITIES = {
    "heartbeat.late": "warning",
    "heartbeat.down": "critical",
    "queue.size": "warning",
    "preview.ready": "info",
}


class Sent(NamedTuple):
    """One message: its time, recipient, group, reason, and listed incidents."""

    at: int
    """Seconds since the start."""
    recipient: str
    family: str
    reason: str
    listed: tuple[tuple[str, str, str], ...]
    """Subject, kind and state of each listed incident, sorted."""
    firing: int
    resolved: int
    more: int


@dataclass(slots=True, eq=False)
class Incident:
    """One incident of a subject."""

    subject: str
    kind: str
    number: int
    is_open: bool = True
    is_acknowledged: bool = False


@dataclass(slots=True)
class Member:
    """An incident in a group."""

    incident: Incident
    pending: str | None
    since: int
    is_sent: bool = False


@dataclass(slots=True)
class Silence:
    """A silence of kinds (None for all kinds) until `end`."""

    kinds: Sequence[str] | None
    start: int
    end: int
    incident: Incident | None = None


@dataclass(slots=True)
class Recipient:
    """A recipient with its rule."""

    name: str
    kinds: Sequence[str]
    quiet: tuple[int, int] | None
    """Hours of the day in UTC: from, to (over midnight)."""
    reminders: bool = True


@dataclass(slots=True)
class _Group:
    members: list[Member] = field(default_factory=list)
    sent_at: int | None = None
    remind_at: int | None = None


class Oracle:
    """Applies changes, and collects the messages that must result."""

    def __init__(self, recipients: Sequence[Recipient]) -> None:
        self._recipients = recipients
        self._groups: dict[tuple[str, str], _Group] = {}
        self._open: dict[tuple[str, str], Incident] = {}
        self._silences: list[Silence] = []
        self._number = 0
        self.now = 0
        self.sent: list[Sent] = []

    @property
    def open_incidents(self) -> Mapping[tuple[str, str], Incident]:
        """Return the open incidents by family and subject."""
        return self._open

    def fire(self, kind: str, subject: str) -> None:
        family = kind.partition(".")[0]
        incident = self._open.get((family, subject))
        if incident is None:
            self._number += 1
            incident = Incident(subject, kind, self._number)
            self._open[family, subject] = incident
            self._add(incident, "firing")
        elif incident.kind != kind:
            incident.kind, incident.is_acknowledged = kind, False
            for member in self._members_of(incident):
                if member.pending is None:
                    member.pending, member.since = "firing", self.now
            self._add(incident, "firing")

    def happen(self, kind: str, subject: str) -> None:
        self._number += 1
        self._add(Incident(subject, kind, self._number, is_open=False), "info")

    def resolve(self, family: str, subject: str) -> None:
        incident = self._open.pop((family, subject), None)
        if incident is None:
            return
        incident.is_open = False
        for group in self._groups.values():
            group.members = [each for each in group.members if each.incident is not incident or each.is_sent]
        for member in self._members_of(incident):
            member.pending, member.since = "resolved", self.now

    def acknowledge(self, family: str, subject: str) -> None:
        if (incident := self._open.get((family, subject))) is not None:
            incident.is_acknowledged = True

    def silence(self, kinds: Sequence[str] | None, seconds: int, incident: Incident | None = None) -> None:
        self._silences.append(Silence(kinds, self.now, self.now + seconds, incident))

    def advance(self, seconds: int) -> None:
        """Let time pass, step by step."""
        end = self.now + seconds
        while self.now < end:
            if not any(group.members for group in self._groups.values()):
                self.now = end
            else:
                self.now += STEP
                self.look()

    def look(self) -> None:
        """Check every group at the present time."""
        for (name, family), group in self._groups.items():
            if not group.members:
                continue
            recipient = next(each for each in self._recipients if each.name == name)
            # After a message the group is checked again.
            while self._look_at(recipient, family, group):
                pass

    def _look_at(self, recipient: Recipient, family: str, group: _Group) -> bool:
        group.members = [
            each
            for each in group.members
            if not (each.pending == "info" and self._is_silenced(each.incident))
        ]
        quiet = self._is_quiet(recipient)

        def is_held(member: Member) -> bool:
            if self._is_silenced(member.incident) and member.pending != "resolved":
                return True
            return quiet and SEVERITIES[member.incident.kind] != "critical"

        ready = [each for each in group.members if each.pending is not None and not is_held(each)]
        # All incidents have ended for the recipient: a new incident begins the group again.
        begins = any(each.pending == "firing" for each in ready) and not any(
            each.is_sent for each in group.members
        )
        if ready and self.now >= self._due(min(each.since for each in ready), group, begins=begins):
            self._send_changes(recipient, family, group, ready)
            return True
        repeated = [
            each
            for each in group.members
            if self._is_repeated(recipient, each)
            and not self._is_silenced(each.incident)
            and not (quiet and SEVERITIES[each.incident.kind] != "critical")
        ]
        if group.remind_at is not None and self.now >= group.remind_at and repeated:
            listed = [(each.incident, "firing") for each in repeated]
            self._send(recipient, family, group, "reminder", listed, 0)
            group.remind_at = self.now + 24 * 3600
            return True
        return False

    def _send_changes(
        self, recipient: Recipient, family: str, group: _Group, ready: Sequence[Member]
    ) -> None:
        reason = "change" if any(each.is_sent for each in group.members) else "first"
        listed = [(each.incident, each.pending or "") for each in ready]
        opens = any(each.pending == "firing" for each in ready)
        resolved = sum(each.pending == "resolved" for each in ready)
        for each in ready:
            if each.pending == "firing":
                each.is_sent, each.pending = True, None
            else:
                group.members.remove(each)
        self._send(recipient, family, group, reason, listed, resolved)
        if not any(self._is_repeated(recipient, each) for each in group.members):
            group.remind_at = None
        elif opens:
            # A recipient gets no reminder earlier than before, nor immediately after a message.
            is_due = group.remind_at is not None and group.remind_at > self.now
            group.remind_at = min(group.remind_at or 0, self.now + 3600) if is_due else self.now + 3600

    def _send(
        self,
        recipient: Recipient,
        family: str,
        group: _Group,
        reason: str,
        listed: Sequence[tuple[Incident, str]],
        resolved: int,
    ) -> None:
        severity = {"critical": 0, "warning": 1, "info": 2}
        ordered = sorted(
            listed,
            key=lambda each: (each[1] == "resolved", severity[SEVERITIES[each[0].kind]], each[0].number),
        )[:10]
        self.sent.append(
            Sent(
                self.now,
                recipient.name,
                family,
                reason,
                tuple(sorted((incident.subject, incident.kind, state) for incident, state in ordered)),
                sum(each.is_sent for each in group.members),
                resolved,
                len(listed) - len(ordered),
            )
        )
        group.sent_at = self.now

    def _due(self, since: int, group: _Group, *, begins: bool) -> int:
        if group.sent_at is None or begins:
            return since + 30
        return max(since + 30, group.sent_at + 300)

    def _is_repeated(self, recipient: Recipient, member: Member) -> bool:
        incident = member.incident
        return (
            recipient.reminders
            and member.is_sent
            and member.pending != "resolved"
            and incident.is_open
            and not incident.is_acknowledged
        )

    def _is_silenced(self, incident: Incident) -> bool:
        return any(
            each.start <= self.now < each.end
            and (
                each.kinds is None or incident.kind in each.kinds or incident.kind.split(".")[0] in each.kinds
            )
            and (each.incident is None or each.incident is incident)
            for each in self._silences
        )

    def _is_quiet(self, recipient: Recipient) -> bool:
        if recipient.quiet is None:
            return False
        begin, end = recipient.quiet
        moment = START + timedelta(seconds=self.now)
        return moment.hour >= begin or moment.hour < end

    def _add(self, incident: Incident, pending: str) -> None:
        family = incident.kind.partition(".")[0]
        for recipient in self._recipients:
            if incident.kind not in recipient.kinds and family not in recipient.kinds:
                continue
            group = self._groups.setdefault((recipient.name, family), _Group())
            if not any(each.incident is incident for each in group.members):
                group.members.append(Member(incident, pending, self.now))

    def _members_of(self, incident: Incident) -> list[Member]:
        return [
            each for group in self._groups.values() for each in group.members if each.incident is incident
        ]
