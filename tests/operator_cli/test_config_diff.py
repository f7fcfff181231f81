"""What people see of a plan."""

import io
from typing import Any

import pytest
from rich.console import Console

from control_domain.configurations.documents.document import ConfigurationDocument, Wanted
from control_domain.configurations.plan import make_plan
from control_domain.configurations.state import Present, ProjectState
from control_domain.configurations.values import FIELDS, Secret
from operator_cli.configuration_diff import show_plan, write_value

SHOP = {"id": "prj_1", "name": "Shop", "slug": "shop"}
PRODUCTION = ("environments", "production")
ENVIRONMENT = {**FIELDS["environment"], "name": "Production", "type": "production", "order": 3}
WINDOW = {"days": ["mon", "thu"], "from": "09:00", "to": "16:00", "timezone": "Europe/Oslo"}
DIGESTS = {name: digit * 32 for name, digit in (("old", "a"), ("new", "b"))}


def drawn(plan: dict[str, Any], **options: Any) -> str:
    """The plan as it is printed on a stream, or on a terminal where the options say so."""
    out = io.StringIO()
    show_plan(Console(file=out, highlight=False, soft_wrap=True, **options), SHOP, plan)
    return out.getvalue()


def plan_of(*actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    verbs = [action["action"] for action in actions]
    counts = {verb: verbs.count(verb) for verb in ("create", "update", "delete")}
    return {"summary": counts, "actions": list(actions), "unmanaged": [], "awaiting_approval": [], **more}


def changed(field: str, before: Any, after: Any) -> dict[str, Any]:
    change = {"field": field, "from": before, "to": after}
    return plan_of({"action": "update", "resource": "environments.production", "changes": [change]})


def test_a_plan_as_it_is_made() -> None:
    """Every kind of change, and all that is told beside them."""
    present = [
        Present(("project",), {"name": "Shop"}),
        Present(
            PRODUCTION,
            {
                **ENVIRONMENT,
                "wake_on_request": True,
                "variables.GONE": Secret(DIGESTS["old"]),
                "variables.KEPT": Secret(DIGESTS["old"]),
                "variables.URL": Secret(DIGESTS["old"]),
            },
        ),
        Present(("environments", "old"), {**ENVIRONMENT, "name": "Old"}),
        Present(("environments", "staging"), {**ENVIRONMENT, "name": "Staging"}),
        Present(("sites", "www"), {"domains": ["https://shop.example"], "timezone": "UTC"}),
    ]
    wanted = [
        Wanted(
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
        Wanted((*PRODUCTION, "queues", "default"), {}, 9),
        Wanted(
            (*PRODUCTION, "heartbeats", "nightly"), {"cron": "0 3 * * *", "period": None, "grace": "30m"}, 8
        ),
        Wanted(("sites", "www"), {'goals["Sign up"]': {"path": "/welcome"}}, 11),
    ]
    document = ConfigurationDocument(
        wanted, {("environments", "old"): 20, (*PRODUCTION, "variables", "GONE"): 21}
    )
    state = ProjectState(
        "prj_1", 0, {one.address: one for one in present}, awaiting_approval=frozenset({PRODUCTION})
    )
    plan = make_plan(document, state).to_json()
    told = drawn(plan)
    assert told == (
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
An environment goes with its keys, heartbeats, queues, variables and releases.

These wait for a second person, and are compared as they will be (`pharos approvals`):
    environments.production.variables

The document does not say these, and they stay as they are:
    environments.production.wake_on_request
    environments.production.variables.KEPT
    environments.staging
To remove a resource, a variable or a goal, list it under delete: in the document; to change anything else, say \
it there.
"""
    )
    assert "hunter2" not in told


def test_a_plan_that_changes_nothing() -> None:
    assert drawn(plan_of()) == "No changes: shop is as the document says.\n"


def test_only_environments_take_others_with_them() -> None:
    for resource, is_told in (
        ("environments.old", True),
        ("environments.old.queues.default", False),
        ("environments.old.heartbeats.nightly", False),
        ("sites.www", False),
    ):
        told = drawn(plan_of({"action": "delete", "resource": resource, "changes": []}))
        assert ("An environment goes with" in told) is is_told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "none"),
        (True, "true"),
        (3, "3"),
        ("main", "main"),
        ("Shop Ltd", "Shop Ltd"),
        ("Größe", "Größe"),
        ("30m", "30m"),
        ("https://shop.example:8443", "https://shop.example:8443"),
        # What has quotes would be read as something else without.
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
def test_values_are_written_as_documents_have_them(value: Any, told: str) -> None:
    assert write_value(value) == told


def test_nothing_acts_on_a_terminal() -> None:
    """Text from a document or a database, wherever it stands."""
    nasty = "[red]x[/red] \x1b[2J\r\u202e:smile:"
    plan = plan_of(
        {
            "action": "create",
            "resource": f'sites["{nasty}"]',
            "changes": [{"field": f'goals["{nasty}"]', "from": None, "to": {"path": nasty}}],
        },
        unmanaged=[f'sites["{nasty}"]'],
    )
    told = drawn(plan, force_terminal=True, color_system=None)
    assert not {"\x1b[2J", "\r", "\u202e"}.intersection(told)
    assert told.count(r"[red]x[/red] \u001b[2J\r\u202e:smile:") == 4


def test_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = changed("replicas", 1, 2)
    assert "\x1b[33m    ~ replicas: 1 → 2\x1b[0m" in drawn(
        plan, force_terminal=True, color_system="standard", no_color=False
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in drawn(plan, force_terminal=True, color_system="standard")


def test_no_line_is_cut() -> None:
    long = "x" * 5000
    assert f"    ~ name: {long} → a{long}\n" in drawn(changed("name", long, f"a{long}"))
