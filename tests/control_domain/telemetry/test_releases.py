"""Releases: the grouping of deployments, its cost, and how often it is computed."""

import random
import re
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from analytics_queries.telemetry.time_range import TimeRange, to_nanoseconds
from control_domain.telemetry import exceptions, releases
from control_domain.telemetry.exceptions import Decisions, GroupFilter, format_group, list_groups
from control_domain.telemetry.regressions import Seen, find_regressions
from control_domain.telemetry.releases import Deployed, Deployments, Releases
from control_domain.telemetry.statuses import GroupStatus
from storage_backends.column_store.interface import QueryResult

_NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
_NOW = _NOON + timedelta(days=6)


def _minute(number: int) -> datetime:
    return _NOON + timedelta(minutes=number)


def _expected_ranks(deployments: Sequence[Deployed], asked: Sequence[str]) -> list[int | None]:
    """Compute the ranks of versions by the rule: compare each name with all earlier ones."""
    versions: dict[str, int] = {}
    names: list[tuple[str, bool, int]] = []

    def matching(text: str, *, is_commit: bool) -> list[int]:
        if not re.fullmatch("[0-9a-f]{7,64}", text):
            return []
        return [
            rank
            for name, is_other_commit, rank in names
            if (is_other_commit and name.startswith(text)) or (is_commit and text.startswith(name))
        ]

    def ranks_of(version: str) -> list[int]:
        known = [versions[version]] if version in versions else []
        return [*known, *matching(version.lower(), is_commit=False)]

    for place, deployment in enumerate(deployments):
        commit = (deployment.commit or "").lower()
        rank = min([*matching(commit, is_commit=True), *ranks_of(deployment.version), place])
        versions.setdefault(deployment.version, rank)
        for text, is_commit in ((commit, True), (deployment.version.lower(), False)):
            if re.fullmatch("[0-9a-f]{7,64}", text):
                names.append((text, is_commit, rank))
    return [min(ranks_of(version), default=None) for version in asked]


@pytest.mark.parametrize("seed", range(20))
def test_names_of_one_commit_are_one_release(seed: int) -> None:
    chance = random.Random(seed)

    def name() -> str | None:
        commit = chance.choice("ab") * 6 + chance.choice("abA") * chance.randrange(4) + chance.choice("01")
        return chance.choice([commit, commit, commit[:7], f"1.{chance.randrange(4)}", None])

    deployments = [Deployed(name() or "2", _minute(place), name()) for place in range(60)]
    asked = [name() or "3" for _ in range(60)]
    made = Releases(deployments)
    assert [made.rank_of(version) for version in asked] == _expected_ranks(deployments, asked)


def test_commits_with_one_beginning_cost_no_more_than_others() -> None:
    names = [f"aaaaaaa{number:033x}" for number in range(5000)]
    started = time.process_time()
    made = Releases([Deployed(name, _minute(place), name) for place, name in enumerate(names)])
    # Comparing each name with all earlier ones took 11 s.
    assert time.process_time() - started < 2
    assert made.rank_of(names[-1][:39]) == 4992


class _Store:
    """A store with groups that were seen in the last hour."""

    def __init__(self, groups: int) -> None:
        self.groups = range(1, groups + 1)

    async def query(self, sql: str, parameters: dict[str, Any] | None = None) -> QueryResult:
        seen = to_nanoseconds(_NOW) - 1
        if "AS affected_users" in sql:
            columns = ("group_id", "last_seen_ns", "count", "affected_users", "services")
            return QueryResult(columns, [(group, seen, 3, 0, ["api"]) for group in self.groups])
        if "roundDown" in sql:
            asked = (parameters or {})["groups"]
            rows = [(group, f"service {number}", "", 0, seen) for group in asked for number in range(50)]
            return QueryResult(("group", "service", "version", "since", "first"), rows)
        return QueryResult(("ms",), [[0]] if "pharos" not in sql else [])


async def test_the_releases_of_a_page_are_made_once_and_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    class Counted(Releases):
        def __init__(self, deployments: Sequence[Deployed]) -> None:
            threads.append(threading.current_thread())
            super().__init__(deployments)

    monkeypatch.setattr(releases, "Releases", Counted)
    deployed = Deployments([Deployed(str(number), _minute(number)) for number in range(3)])
    resolved = {format_group(group): GroupStatus("resolved", _minute(1)) for group in range(1, 6)}
    decisions = Decisions("env", resolved, deployed)
    within = TimeRange(to_nanoseconds(_NOON), to_nanoseconds(_NOW))
    store: Any = _Store(20)
    documents, _ = await list_groups(store, decisions, within, GroupFilter(), None, 20)
    assert [document["status"] for document in documents] == ["open"] * 20
    assert [document["regressed_at"] is not None for document in documents] == [True] * 5 + [False] * 15
    assert len(threads) == 1 and threading.main_thread() not in threads


def test_regressions_are_found_service_by_service() -> None:
    """A newer release of another service is not a regression. Each group is compared with the live release of its
    service."""
    deployed = Deployments(
        [
            Deployed("1", _minute(0)),
            Deployed("2", _minute(10), service="api"),
            Deployed("3", _minute(20), service="web"),
        ]
    )
    resolved = {"a": _minute(5), "b": _minute(15)}
    seen = [
        ("a", Seen("api", "", _minute(12))),
        ("a", Seen("api", "", _minute(11))),
        ("a", Seen("job", "", _minute(30))),
        ("b", Seen("api", "2", _minute(30))),
        ("b", Seen("web", "", _minute(16))),
        ("b", Seen("api", "", _minute(14))),
    ]
    assert find_regressions(resolved, deployed, seen) == {"a": _minute(11)}
    later = ("b", Seen("web", "", _minute(21)))
    assert find_regressions(resolved, deployed, [*seen, later]) == {"a": _minute(11), "b": _minute(21)}
    assert exceptions.can_have_regressed(_minute(19), deployed)
    assert not exceptions.can_have_regressed(_minute(20), deployed)
