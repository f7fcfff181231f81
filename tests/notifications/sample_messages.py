"""Messages for tests of channels and of their forms."""

from typing import Any

from notifications.message import DeploymentBefore, Figure, ListedIncident, Message

_LINK = "https://pharos.example/incidents/inc_01?expires=1795700000&signature=Xb6dCkq0g3v1p2s9mYw7eTtq"
NASTY = (
    "<b>&amp;*_~`|[x](http://evil.example) @everyone <!channel> <@U1> \\{{DATE(2020-01-01,SHORT)}} # > - ||s|| "
    "\u202eabc\u0000\r\nBcc: x@example.org \U0001f4a5 "
)
"""Markup of each service, mentions, control characters, a header, and a character beyond 16 bits."""


def make_incident(**changes: Any) -> ListedIncident:
    """Return an incident of a heartbeat, with other values for some of its members."""
    members: dict[str, Any] = {
        "id": "inc_01KAZ7Q0",
        "kind": "heartbeat.down",
        "state": "firing",
        "severity": "critical",
        "title": "Heartbeat nightly-backup is down",
        "started_at": "2026-11-26T03:00:00.000Z",
        "details": ["The last run reported the exit code 1."],
        "figures": [Figure(name="missed runs", value=2, threshold=1)],
        "labels": {"project": "shop", "environment": "production", "heartbeat": "nightly-backup"},
        "deployment": DeploymentBefore(
            number=412, revision="8f290fbf9d0b33298aa", finished_at="2026-11-26T02:41:10Z", subject="use zstd"
        ),
        "command": "pharos heartbeat show 12",
        "url": _LINK,
    }
    return ListedIncident(**{**members, **changes})


def make_message(*incidents: ListedIncident, **changes: Any) -> Message:
    """Return a message about the incidents, or about that of a heartbeat."""
    listed = list(incidents) or [make_incident()]
    members: dict[str, Any] = {
        "id": "msg_01KAZ7QF",
        "group_id": "grp_01KAZ7QG",
        "reason": "first",
        "state": listed[0].state,
        "severity": listed[0].severity,
        "family": listed[0].kind.partition(".")[0],
        "title": listed[0].title,
        "created_at": "2026-11-26T03:00:31.000Z",
        "account": "Acme",
        "project": "shop",
        "environment": "production",
        "incidents": listed,
        "firing": sum(incident.state == "firing" for incident in listed),
        "resolved": sum(incident.state == "resolved" for incident in listed),
        "url": _LINK,
        "acknowledge_url": f"{_LINK}#acknowledge",
        "silence_url": f"{_LINK}#silence",
    }
    return Message(**{**members, **changes})


def make_resolved(**changes: Any) -> Message:
    """Return the message that ends `make_message()`."""
    incident = make_incident(state="resolved", resolved_at="2026-11-26T05:10:12.000Z")
    return make_message(incident, id="msg_01KAZ9", created_at="2026-11-26T05:10:45.000Z", **changes)


def make_test_message() -> Message:
    """Return the message of a channel's test."""
    incident = make_incident(kind="test.message", state="info", severity="info", title="Test of ops")
    return make_message(incident, is_test=True)


def make_largest_message(text: str = NASTY) -> Message:
    """Return a message in which every text is at least as long as its sources allow."""

    def fill(length: int) -> str:
        return (text * (length // len(text) + 1))[:length]

    url = "https://pharos.example/" + "a_*&=" * 190
    incidents = [
        ListedIncident(
            id="inc_" + "x" * 36,
            kind="deployment.awaiting_approval",
            state="firing" if number % 2 else "resolved",
            severity="critical",
            title=fill(400),
            started_at="2026-11-26T03:00:00.123Z",
            resolved_at=None if number % 2 else "2026-11-26T05:10:12.000Z",
            details=[fill(5000)] * 20,
            figures=[Figure(name=fill(300), value=-1.23456e300, unit=fill(100), threshold=1e-300)] * 20,
            labels={f"{position}{fill(250)}": fill(2000) for position in range(20)},
            deployment=DeploymentBefore(
                number=10**12, revision=fill(255), finished_at="2026-11-01T00:00:00Z", subject=fill(1000)
            ),
            command="pharos " + "<&>\"'*_`" * 24,
            url=url,
        )
        for number in range(10)
    ]
    return make_message(
        *incidents,
        id="msg_" + "x" * 36,
        group_id="grp_" + "y" * 36,
        reason="reminder",
        state="firing",
        title=fill(1000),
        account=fill(500),
        project=fill(500),
        environment=fill(500),
        firing=10**12,
        resolved=10**12,
        more=10**12,
        url=url,
        acknowledge_url=f"{url}#acknowledge",
        silence_url=f"{url}#silence",
    )
