"""`pharos rules` and `pharos thresholds`."""

from typing import Any

from tests.operator_cli.notifications.conftest import Run
from tests.operator_cli.notifications.documents import (
    ADA,
    PRODUCTION,
    PROJECTS,
    channel,
    rule,
    threshold,
)
from tests.support.fake_api import Answer, FakeApi, page, problem

_RULES = "/api/v1/notification-rules"


def _data(document: Any, status: int = 200) -> Answer:
    return Answer(status, {"data": document})


def _serve(server: FakeApi) -> None:
    server.by_path |= {
        "/api/v1/projects": page(PROJECTS),
        "/api/v1/people": page([ADA]),
        "/api/v1/notification-channels": page([channel()]),
        f"{_RULES}/5": _data(rule()),
        "/api/v1/default-notification-rule": _data({"sends_email": False}),
        "/api/v1/thresholds/7": _data(threshold()),
    }


def _last(server: FakeApi, method: str) -> Any:
    return [request.body for request in server.requests if request.method == method][-1]


def test_a_rule_is_created_and_changed_by_names(run: Run, server: FakeApi) -> None:
    _serve(server)
    server.by_path[_RULES] = _data(rule(), 201)
    options = ("--kind", "heartbeat", "--kind", "deployment.failed", "--min-severity", "warning")
    recipients = ("--channel", "ops", "--person", "ada@shop.example")
    done = run("rules", "create", "on-call", "--environment", "production", *options, *recipients)
    assert done.status == 0 and "ops, ada@shop.example" in done.out and "warning and above" in done.out
    assert _last(server, "POST") == {
        "name": "on-call",
        "project": "prj_1",
        "environment": "env_1",
        "kinds": ["heartbeat", "deployment.failed"],
        "min_severity": "warning",
        "recipients": [{"channel": "chn_ops"}, {"person": "per_1"}],
    }
    for words, message, status in (
        (("rules", "create", "x"), "Name the recipients", 2),
        (("rules", "create", "x", "--channel", "opps"), "Did you mean 'ops'?", 5),
        (("rules", "set", "5"), "Name a setting to change", 2),
        (("rules", "set", "5", "--default-kinds", "--kind", "queue"), "do not go together", 2),
    ):
        done = run(*words)
        assert (done.status, done.out) == (status, "") and message in done.err, done
    done = run("rules", "set", "5", "--default-kinds", "--reminders", "off")
    assert done.status == 0 and "people in the rule get nothing" in done.out
    assert _last(server, "PATCH") == {"kinds": None, "reminders": False}


def test_the_first_rule_ends_the_default_rule(run: Run, server: FakeApi) -> None:
    _serve(server)
    server.by_path["/api/v1/default-notification-rule"] = _data({"sends_email": True})
    whole, of_shop = rule(id=6, project=None, environment=None), rule(id=6)
    create = ("rules", "create", "on-call", "--channel", "ops")
    for made, others, sentence in (
        (whole, [of_shop | {"id": 7}], "The default rule, e-mail to the owners, no longer applies.\n"),
        (of_shop, [], "no longer applies to project shop.\n"),
        (of_shop, [rule(id=7)], ""),
        (of_shop, [whole | {"id": 7}], ""),
    ):
        server.answers.extend([_data(made, 201), page([made, *others])])
        done = run(*create)
        assert done.status == 0 and done.out.endswith(sentence), done
        assert ("no longer applies" in done.out) == bool(sentence)


def test_errors_of_fields_name_the_options(run: Run, server: FakeApi) -> None:
    _serve(server)
    errors = [
        {"field": "settings.chat_id", "message": "is wrong"},
        {"field": "secrets.bot_token", "message": "is wrong"},
        {"field": "window_seconds", "message": "must be a whole number from 60 to 3,600"},
        {"field": "kinds[0]", "message": "is unknown"},
    ]
    server.by_path["/api/v1/thresholds/7"] = problem(422, "invalid-input", "2 fields.", errors=errors)
    done = run("thresholds", "set", "7", "--above", "1")
    assert done.err.splitlines()[1:] == [
        "  --chat-id: is wrong",
        "  --bot-token-file: is wrong",
        "  --window (in seconds): must be a whole number from 60 to 3,600",
        "  --kind[0]: is unknown",
    ]


def test_rules_are_listed_found_and_removed(run: Run, server: FakeApi) -> None:
    _serve(server)
    everything = rule("all", id=6, project=None, environment=None, kinds=None, enabled=False, recipients=[])
    server.by_path[_RULES] = page([rule(), everything])
    listed = run("rules").out
    assert "shop/production" in listed and "default" in listed and "nobody" in listed
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert run("rules", "remove", "on-call", "--yes").out == "Rule on-call is removed.\n"
    server.by_path[_RULES] = page([])
    nobody = "Nobody is notified: no owner has an e-mail address. Set PHAROS_OWNER_EMAIL, or make a rule."
    default = {
        "applies": True,
        "nobody": nobody,
        "kinds": ["heartbeat.down"],
        "production_kinds": ["exception.new"],
        "recipients": [{"channel": None, "person": ADA}],
        "sends_email": False,
    }
    server.by_path["/api/v1/default-notification-rule"] = _data(default)
    listed = run("rule", "list").out
    assert "`pharos rules default`" in listed
    assert listed.endswith(f"\n{nobody} `pharos rules create` creates one.\n")
    shown = run("rules", "default").out
    assert shown.endswith(f"\n{nobody}\n")
    assert "ada@shop.example" in shown and "the installation sends no e-mail" in shown
    kind = {"name": "queue.wait", "severity": "warning", "default": "on", "meaning": "Waits too long"}
    server.by_path["/api/v1/alert-kinds"] = _data([kind])
    assert run("rules", "kinds", "-q").out == "queue.wait\n"
    assert "Waits too long" in run("rules", "kinds").out


def test_a_threshold_is_created_changed_and_listed(run: Run, server: FakeApi) -> None:
    _serve(server)
    server.by_path[f"/api/v1/environments/{PRODUCTION['id']}/thresholds"] = _data(threshold(), 201)
    create = ("thresholds", "create", "slow", "service.latency", "checkout", "--environment", "production")
    done = run(*create, "--above", "800", "--recovery", "600", "--window", "5m", "--severity", "critical")
    assert "above 800 ms, after 1 min" in done.out and "at 600 ms" in done.out
    assert _last(server, "POST") == {
        "name": "slow",
        "kind": "service.latency",
        "target": "checkout",
        "direction": "above",
        "threshold": 800.0,
        "recovery": 600.0,
        "window_seconds": 300,
        "severity": "critical",
    }
    assert run(*create).status == 2
    assert run(*create, "--above", "1", "--below", "2").status == 2
    server.by_path["/api/v1/thresholds"] = page(
        [
            threshold(),
            threshold("slow", id=8, environment={"slug": "staging"}, value=None, phase=None),
            threshold("typo", id=9, value=None, phase="ok"),
        ]
    )
    listed = run("thresholds").out
    assert "912 ms" in listed and "no data" in listed and "firing" in listed and "shop/staging" in listed
    assert all(len(line) <= 80 for line in listed.splitlines())
    done = run("thresholds", "show", "slow")
    assert done.status == 1 and "shop/production/slow, shop/staging/slow" in done.err
    assert run("thresholds", "set", "production/slow", "--below", "0", "--enabled", "off").status == 0
    assert _last(server, "PATCH") == {"direction": "below", "threshold": 0.0, "enabled": False}
    assert run("threshold", "remove", "shop/production/slow", "--yes").out == "Threshold slow is removed.\n"
