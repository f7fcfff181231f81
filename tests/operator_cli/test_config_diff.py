"""The printed plan of a configuration document."""

import io
from typing import Any

import pytest
from rich.console import Console

from control_domain.configurations.plan import make_plan
from control_domain.configurations.resources import (
    FIELDS,
    ConfigurationDocument,
    CurrentResource,
    DesiredResource,
    ProjectState,
    Secret,
)
from operator_cli.configuration.diff import format_value, show_plan

PRODUCTION = ("environments", "production")
ENVIRONMENT = {**FIELDS["environment"], "name": "Production", "type": "production", "order": 3}
WINDOW = {"days": ["mon", "thu"], "from": "09:00", "to": "16:00", "timezone": "Europe/Oslo"}
DIGESTS = {name: digit * 32 for name, digit in (("old", "a"), ("new", "b"))}


def drawn(plan: dict[str, Any], **options: Any) -> str:
    """Return the printed plan, on a terminal if the options say so."""
    out = io.StringIO()
    show_plan(Console(file=out, highlight=False, soft_wrap=True, **options), "shop", plan)
    return out.getvalue()


def plan_of(*actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    verbs = [action["action"] for action in actions]
    counts = {verb: verbs.count(verb) for verb in ("create", "update", "delete")}
    return {"summary": counts, "actions": list(actions), "unmanaged": [], "awaiting_approval": [], **more}


def changed(field: str, before: Any, after: Any) -> dict[str, Any]:
    change = {"field": field, "from": before, "to": after}
    return plan_of({"action": "update", "resource": "environments.production", "changes": [change]})


def test_a_plan_is_printed_as_a_diff() -> None:
    """A plan with every kind of change and every note."""
    present = [
        CurrentResource(("project",), {"name": "Shop"}),
        CurrentResource(
            PRODUCTION,
            {
                **ENVIRONMENT,
                "wake_on_request": True,
                "variables.GONE": Secret(DIGESTS["old"]),
                "variables.KEPT": Secret(DIGESTS["old"]),
                "variables.URL": Secret(DIGESTS["old"]),
            },
        ),
        CurrentResource(("environments", "old"), {**ENVIRONMENT, "name": "Old"}),
        CurrentResource(("environments", "staging"), {**ENVIRONMENT, "name": "Staging"}),
        CurrentResource(("sites", "www"), {"domains": ["https://shop.example"], "timezone": "UTC"}),
    ]
    wanted = [
        DesiredResource(
            PRODUCTION,
            {
                "name": "New",
                "branch": "main",
                "replicas": 2,
                "locked": True,
                "window": WINDOW,
                "variables.URL": Secret(DIGESTS["new"], "hunter2"),
                "variables.MORE": Secret(DIGESTS["new"], "hunter2"),
            },
            3,
            bound=frozenset({"name"}),
        ),
        DesiredResource((*PRODUCTION, "queues", "default"), {}, 9),
        DesiredResource(
            (*PRODUCTION, "heartbeats", "nightly"), {"cron": "0 3 * * *", "period": None, "grace": "30m"}, 8
        ),
        DesiredResource(("sites", "www"), {'goals["Sign up"]': {"path": "/welcome"}}, 11),
    ]
    document = ConfigurationDocument(
        wanted, {("environments", "old"): 20, (*PRODUCTION, "variables", "GONE"): 21}
    )
    state = ProjectState(
        "prj_1", 0, {one.address: one for one in present}, awaiting_approval=frozenset({PRODUCTION})
    )
    plan = make_plan(document, state).to_json()
    output = drawn(plan)
    assert output == (
        """\
~ environments.production
    ~ name: ••• → •••
    ~ branch: none → main
    ~ replicas: 1 → 2
    ~ locked: false → true
    ~ window: none → {days: [mon, thu], from: "09:00", to: "16:00", timezone: Europe/Oslo}
    - variables.GONE: ••• aaaaaaaa
    + variables.MORE: ••• bbbbbbbb
    ~ variables.URL: ••• aaaaaaaa → ••• bbbbbbbb

+ environments.production.heartbeats.nightly
    + cron: "0 3 * * *"
    + grace: 30m

+ environments.production.queues.default

~ sites.www
    + goals["Sign up"]: {path: /welcome}

- environments.old
    - name: Old
    - type: production
    - order: 3
    - replicas: 1
    - state: running
    - locked: false
    - approval.deploys: false
    - approval.variables: false
    - wake_on_request: false

2 to create, 2 to change, 1 to delete.
Deleting an environment also deletes its keys, monitors, rules, variables and releases.

These wait for a second person (`pharos approvals`); the plan assumes that they are approved:
    environments.production.variables

The document does not mention these, and they stay unchanged:
    environments.production.wake_on_request
    environments.production.variables.KEPT
    environments.staging
To remove a resource, a variable or a goal, list it under delete: in the document; to change anything else, set \
it there.
"""
    )
    assert "hunter2" not in output


def test_a_plan_without_changes_is_one_sentence() -> None:
    assert drawn(plan_of()) == "No changes: shop matches the document.\n"


def test_only_deleted_environments_warn_about_their_contents() -> None:
    for resource, is_told in (
        ("environments.old", True),
        ("environments.old.queues.default", False),
        ("environments.old.heartbeats.nightly", False),
        ("sites.www", False),
    ):
        output = drawn(plan_of({"action": "delete", "resource": resource, "changes": []}))
        assert ("Deleting an environment also deletes" in output) is is_told


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, "none"),
        (True, "true"),
        (3, "3"),
        ("main", "main"),
        ("Shop Ltd", "Shop Ltd"),
        ("Größe", "Größe"),
        ("30m", "30m"),
        ("https://shop.example:8443", "https://shop.example:8443"),
        # Without quotes YAML would read these values as another type.
        ("none", '"none"'),
        ("True", '"True"'),
        ("3", '"3"'),
        ("", '""'),
        ("Shop ", '"Shop "'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        ("0 3 * * *", '"0 3 * * *"'),
        (["https://shop.example", "a,b"], '[https://shop.example, "a,b"]'),
        ({"event": "purchase"}, "{event: purchase}"),
        ([], "[]"),
    ],
)
def test_values_are_formatted_as_in_documents(value: Any, output: str) -> None:
    assert format_value(value) == output


def test_control_characters_are_escaped() -> None:
    """Text from a document or a database is escaped in every position."""
    nasty = "[red]x[/red] \x1b[2J\r\u202e:smile:"
    plan = plan_of(
        {
            "action": "create",
            "resource": f'sites["{nasty}"]',
            "changes": [{"field": f'goals["{nasty}"]', "from": None, "to": {"path": nasty}}],
        },
        unmanaged=[f'sites["{nasty}"]'],
    )
    output = drawn(plan, force_terminal=True, color_system=None)
    assert not {"\x1b[2J", "\r", "\u202e"}.intersection(output)
    assert output.count(r"[red]x[/red] \u001b[2J\r\u202e:smile:") == 4


def test_colours_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = changed("replicas", 1, 2)
    assert "\x1b[33m    ~ replicas: 1 → 2\x1b[0m" in drawn(
        plan, force_terminal=True, color_system="standard", no_color=False
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in drawn(plan, force_terminal=True, color_system="standard")


def test_long_lines_are_not_cut() -> None:
    long = "x" * 5000
    assert f"    ~ name: {long} → a{long}\n" in drawn(changed("name", long, f"a{long}"))
