"""`pharos incidents`, `notifications`, `silences` and `quiet-hours`."""

from typing import Any

import msgspec

from tests.notifications.sample_messages import make_message
from tests.operator_cli.notifications.conftest import Run
from tests.operator_cli.notifications.documents import (
    ADA,
    AT,
    PROJECTS,
    attempt,
    channel,
    incident,
    notification,
    silence,
)
from tests.support.fake_api import Answer, FakeApi, page, problem

_INCIDENT = f"/api/v1/incidents/{incident()['id']}"
_NOTIFICATION = f"/api/v1/notifications/{notification()['id']}"


def _data(document: Any, status: int = 200) -> Answer:
    return Answer(status, {"data": document})


def _last(server: FakeApi, method: str) -> Any:
    return [request.body for request in server.requests if request.method == method][-1]


def test_open_incidents_are_listed_first(run: Run, server: FakeApi) -> None:
    acknowledged = incident(1, acknowledged_at=AT, acknowledged_by=ADA)
    ended = incident(3, "resolved")
    silenced = incident(4, silenced_until=AT)
    server.answers.extend(
        [page([incident(2), acknowledged, silenced]), page([ended, incident(2), acknowledged])]
    )
    server.by_path["/api/v1/default-notification-rule"] = _data({"applies": True, "nobody": None})
    listed = run("incidents").out.splitlines()
    assert [
        word for line in listed for word in ("open", "acknowledged", "resolved", "silenced") if word in line
    ] == [
        "open",
        "acknowledged",
        "silenced",
        "resolved",
    ]
    assert all(len(line) <= 80 for line in listed) and "critical" in listed[1]
    assert "ago" in "".join(listed) and "backup-2 is down" in " ".join(" ".join(listed).split())
    assert [request.path.partition("?")[2] for request in server.requests[:2]] == [
        "state=firing&limit=20",
        "limit=20",
    ]
    server.by_path["/api/v1/projects"] = page(PROJECTS)
    server.answers.append(page([]))
    done = run("incidents", "--state", "open", "--environment", "production", "--kind", "queue")
    assert done.out == "No open incidents.\n"
    assert server.requests[-1].path.endswith("?kind=queue&environment=env_1&state=firing&limit=20")


def test_incidents_without_recipients(run: Run, server: FakeApi) -> None:
    why = "Nobody is notified: the installation sends no e-mail. Set PHAROS_SMTP_URL, or make a rule."
    default = {"applies": True, "nobody": why}
    for rows, default_answer, rules, warns in (
        ([incident()], _data(default), [], True),
        ([incident()], _data(default), [{"id": 1}], False),
        ([incident()], _data({**default, "applies": False}), [], False),
        ([incident()], problem(403, "missing-scope", "The token lacks notifications:read."), [], False),
        ([incident(1, "resolved")], _data(default), [], False),
    ):
        server.by_path |= {
            "/api/v1/incidents": page(rows),
            "/api/v1/default-notification-rule": default_answer,
            "/api/v1/notification-rules": page(rules),
        }
        done = run("incidents")
        assert (done.status, why in done.out) == (0, warns), done
        assert why not in run("incidents", "--json").out


def test_one_incident_is_shown_acknowledged_and_silenced(run: Run, server: FakeApi) -> None:
    whole = {
        **incident(),
        "details": ["The last ping came at 03:00."],
        "figures": [
            {"name": "failures in a row", "value": 1.0, "unit": "", "threshold": 1.0},
            {"name": "age", "value": 912.5, "unit": "s", "threshold": 600.0},
        ],
        "silenced_until": "2026-11-20T14:00:00Z",
        "labels": {},
        "command": "pharos heartbeat show 12",
        "deployment": {"number": 7, "revision": "a" * 40, "finished_at": AT, "subject": "Fix it"},
        "notifications": [notification()],
    }
    server.by_path |= {
        "/api/v1/incidents/inc_0000": problem(404, "not-found", "The account has no such incident."),
        "/api/v1/incidents": page([incident()]),
        _INCIDENT: _data(whole),
    }
    shown = run("incidents", "show", "inc_0000").out
    for part in (
        "age               15 min 12 s (threshold 10 min)",
        "failures in a row 1 (threshold 1)",
        "silenced          until 2026-11-20 14:00 UTC",
        "7, aaaaaaaaaaaa, Fix it",
        "pharos heartbeat show 12",
        "03:00",
        "ops",
    ):
        assert part in shown, part
    server.by_path[f"{_INCIDENT}/acknowledge"] = _data({**incident(), "incidents": 3})
    output = run("incidents", "acknowledge", incident()["id"], "--group").out
    assert output.startswith("3 incidents are acknowledged.") and _last(server, "POST") == {"group": True}
    server.by_path[f"{_INCIDENT}/silence"] = _data(silence(incident=incident()["id"]), 201)
    output = run("incidents", "silence", incident()["id"], "--for", "4h", "--reason", "Known").out
    assert output.startswith("Silent until 2026-11-20 16:00 UTC: Heartbeat backup-1 is down.")
    assert "`pharos silences end 9`" in output
    assert _last(server, "POST") == {"reason": "Known", "group": False, "seconds": 14_400}
    for words, message, status in (
        (("incidents", "silence", "inc_0000"), "--for --until", 2),
        (("incidents", "ack", "inc_0000"), "Did you mean 'acknowledge'?", 2),
        (("alerts",), "Did you mean 'incidents'", 2),
    ):
        done = run(*words)
        assert done.status == status and message in done.err, done


def test_notifications_are_listed_shown_and_sent_again(run: Run, server: FakeApi) -> None:
    failed = notification(2, "failed", attempts=12, last_error="HTTP 410 Gone")
    server.by_path |= {
        "/api/v1/notification-channels": page([channel()]),
        "/api/v1/notifications": page([notification(), failed]),
    }
    listed = run("notifications", "list", "--channel", "ops", "--status", "failed").out
    assert "failed" in listed and "12" in listed and "Attempts" in listed
    assert all(len(line) <= 80 for line in listed.splitlines())
    # The IDs of one group differ only in their last characters, and stay complete next to long addresses.
    to_people = [notification(each, recipient="ada.lovelace.the.first@shop.example") for each in (1, 2)]
    server.by_path["/api/v1/notifications"] = page(to_people)
    listed = run("notifications").out
    assert all(str(each["id"]) in listed for each in to_people), listed
    assert all(len(line) <= 80 for line in listed.splitlines())
    server.by_path["/api/v1/notifications"] = page([notification(), failed])
    assert run("notifications", "--channel", "ops", "--status", "failed").status == 0
    assert server.requests[-1].path.endswith("?status=failed&channel=chn_ops&limit=20")
    content = msgspec.to_builtins(make_message())
    deliveries = [attempt(requested=True), attempt("retry", "HTTP 503")]
    server.by_path[_NOTIFICATION] = _data({**notification(), "content": content, "deliveries": deliveries})
    shown = run("notifications", "show", notification()["id"]).out
    assert "  CRITICAL: Heartbeat nightly-backup is down" in shown and "Look closer:" in shown
    assert "reason       first message" in shown
    assert shown.index("HTTP 503") < shown.index("sent again on request")
    server.by_path[f"{_NOTIFICATION}/resend"] = _data(notification(status="pending"))
    assert "It is sent again to ops." in run("notifications", "resend", notification()["id"]).out
    server.by_path[f"{_NOTIFICATION}/resend"] = problem(
        409, "conflict", "The notification is about to be sent."
    )
    done = run("notifications", "resend", notification()["id"])
    assert (done.status, done.err) == (1, "pharos: The notification is about to be sent.\n")


def test_silences_and_quiet_hours(run: Run, server: FakeApi) -> None:
    server.by_path |= {
        "/api/v1/projects": page(PROJECTS),
        "/api/v1/silences": page([silence(), silence(id=10, project=None, kinds=["queue"], person=None)]),
        "/api/v1/silences/9": _data(silence(state="ended")),
    }
    listed = run("silences").out
    assert "Migration" in listed and "all: queue" in listed
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert run("silences", "end", "9").out == "Silence 9 has ended.\n"
    server.by_path["/api/v1/silences"] = _data(silence(state="waiting"), 201)
    create = ("silences", "create", "--environment", "production", "--reason", "Migration")
    done = run(*create, "--from", "2026-11-20T12:00Z", "--for", "4h", "--kind", "queue")
    assert done.out.startswith("Silence 9 from 2026-11-20 12:00 UTC until 2026-11-20 16:00 UTC.")
    assert _last(server, "POST") == {
        "reason": "Migration",
        "starts_at": "2026-11-20T12:00:00+00:00",
        "ends_at": "2026-11-20T16:00:00+00:00",
        "kinds": ["queue"],
        "environment": "env_1",
    }
    assert run(*create).status == 2
    hours = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin", "days": None}
    server.by_path["/api/v1/me/notification-preferences"] = _data({"quiet_hours": hours})
    assert "22:00 to 07:00 Europe/Berlin." in run("quiet-hours").out
    assert run("quiet-hours", "set", "22:00-07:00", "--timezone", "Europe/Berlin").status == 0
    assert _last(server, "PUT") == {"quiet_hours": {key: hours[key] for key in ("from", "to", "timezone")}}
    assert run("quiet-hours", "set", "22:00-07:00").status == 2
    server.by_path["/api/v1/me/notification-preferences"] = _data({"quiet_hours": None})
    assert run("quiet-hours", "clear").out.startswith("No quiet hours")
    assert _last(server, "PUT") == {"quiet_hours": None}


def test_ps_mentions_open_incidents(run: Run, server: FakeApi) -> None:
    nothing = {"live": None, "active_deployment": None, "instances": []}
    server.by_path |= {
        "/api/v1/projects": page(PROJECTS),
        "/api/v1/environments/env_1/processes": _data(nothing),
        "/api/v1/incidents": page([incident(), incident(2)]),
    }
    assert run("ps").out.endswith("\nOpen incidents: 2. `pharos incidents` lists them.\n")
    server.by_path["/api/v1/incidents"] = problem(403, "missing-scope", "The token lacks notifications:read.")
    done = run("ps")
    assert (done.status, done.err) == (0, "") and "incidents" not in done.out


def test_names_of_channels_are_completed(run: Run, server: FakeApi) -> None:
    server.by_path["/api/v1/notification-channels"] = page([channel(), channel("mail", "email")])
    assert run("__complete", "channels", "test", "").out == "ops\t\nmail\t\n"
    assert "slack\t" in run("__complete", "channels", "create", "sl").out
    assert run("__complete", "rules", "create", "x", "--channel", "m").out == "mail\t\n"
