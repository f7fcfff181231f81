"""A configuration creates no more objects than people may create."""

from typing import Any

import pytest

from control_domain.configurations.addresses import Address
from control_domain.monitors import limits as monitor_limits
from control_domain.projects import limits as project_limits
from control_domain.sites import limits as site_limits
from tests.support.changed_project import PRODUCTION, STAGING, ChangedProject

WWW: Address = ("sites", "www")
DOMAINS = {"domains": ["https://www.example"]}


def _goals(*names: str) -> dict[str, Any]:
    return {f"goals.{name}": {"event": name} for name in names}


@pytest.mark.parametrize(
    ("module", "limit", "first", "second", "noun"),
    [
        (project_limits, "MAX_ENVIRONMENTS", None, (STAGING, {"type": "staging"}), "environments"),
        (
            monitor_limits,
            "MAX_MONITORS",
            ((*PRODUCTION, "heartbeats", "one"), {"period": "1h"}),
            ((*PRODUCTION, "heartbeats", "two"), {"period": "1h"}),
            "heartbeats",
        ),
        (
            monitor_limits,
            "MAX_MONITORS",
            ((*PRODUCTION, "queues", "one"), {}),
            ((*PRODUCTION, "queues", "two"), {}),
            "queues",
        ),
        (site_limits, "MAX_SITES", (WWW, DOMAINS), (("sites", "two"), DOMAINS), "sites"),
        (site_limits, "MAX_GOALS", (WWW, {**DOMAINS, **_goals("one")}), (WWW, _goals("two")), "goals"),
    ],
)
async def test_limits_of_numbers(
    configured: ChangedProject,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    limit: str,
    first: tuple[Address, Any] | None,
    second: tuple[Address, Any],
    noun: str,
) -> None:
    if first is not None:
        await configured.plan_and_apply(*first)
    monkeypatch.setattr(module, limit, 1)
    message = await configured.refused(await configured.plan_one(*second))
    assert f" 1 {noun}, which is the limit: remove " in message


async def test_a_goal_takes_the_place_of_another(
    configured: ChangedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    await configured.plan_and_apply(WWW, {**DOMAINS, **_goals("z")})
    monkeypatch.setattr(site_limits, "MAX_GOALS", 1)
    (action,) = await configured.plan({WWW: _goals("a")}, deleted=[(*WWW, "goals", "z")])
    await configured.apply_step(action)
    assert {name for name in await configured.fields(WWW) or {} if name.startswith("goals.")} == {"goals.a"}
