"""Names of heartbeats, queues and sites, and the fields that are omitted for people without rights."""

from argparse import Namespace
from typing import Any

import pytest

from operator_cli.api.client import Api
from operator_cli.errors import CommandFailed, NoSuchName
from operator_cli.monitors import monitor_commands
from operator_cli.monitors.find_monitor import find_monitor
from operator_cli.monitors.heartbeat import read_ping_keys
from operator_cli.sites.find_site import find_site
from tests.support.fake_api import FakeApi, page, problem, running_fake_api

_LIST = "/api/v1/monitors/heartbeats"


def _monitor(number: int, name: str, environment: str = "production") -> dict[str, Any]:
    return {
        "id": number,
        "name": name,
        "project": {"slug": "shop"},
        "environment": {"slug": environment},
    }


def _serve(server: FakeApi, *monitors: dict[str, Any]) -> None:
    """Respond to a list with all monitors, ignoring the filters."""
    server.by_path[_LIST] = page(list(monitors))


def test_names_are_unique_in_an_environment_only() -> None:
    rows = [_monitor(3, "backup"), _monitor(4, "backup", "staging"), _monitor(5, "nightly")]
    with running_fake_api() as server, Api(server.target) as api:
        _serve(server, *rows)
        for name, number in (
            ("nightly", 5),
            ("NIGHTLY", 5),
            ("staging/backup", 4),
            ("shop/production/backup", 3),
        ):
            assert find_monitor(api, "heartbeat", name)["id"] == number
        with pytest.raises(CommandFailed, match="means several heartbeats. Name one of them: ") as caught:
            find_monitor(api, "heartbeat", "backup")
        assert str(caught.value).endswith("shop/production/backup, shop/staging/backup.")
        with pytest.raises(NoSuchName, match="Did you mean 'nightly'"):
            find_monitor(api, "heartbeat", "nightli")


def test_one_of_many_is_found_by_a_filter() -> None:
    with running_fake_api() as server, Api(server.target) as api:
        server.answers.append(page([_monitor(3, "a b")]))
        assert find_monitor(api, "heartbeat", "a b")["id"] == 3
    (request,) = server.requests
    assert request.path == f"{_LIST}?name=a+b&limit=2"


def test_an_empty_name_is_no_name() -> None:
    """An unset variable in a script gives an empty name, which must not mean the only heartbeat."""
    with running_fake_api() as server, Api(server.target) as api:
        _serve(server, _monitor(3, "backup"))
        with pytest.raises(NoSuchName, match="There is no heartbeat ''"):
            find_monitor(api, "heartbeat", "")


def test_a_number_is_an_id_first_then_a_name() -> None:
    with running_fake_api() as server, Api(server.target) as api:
        server.by_path[f"{_LIST}/404"] = problem(404, "not-found", "The account has no such heartbeat.")
        _serve(server, _monitor(3, "404"), _monitor(4, "other"))
        assert find_monitor(api, "heartbeat", "404")["id"] == 3


def test_sites_of_one_name_are_listed_with_their_ids() -> None:
    rows = [
        {"id": number, "tracker_id": f"sit_{number}", "name": "Shop", "project": {"slug": slug}}
        for number, slug in ((1, "shop"), (2, "blog"))
    ]
    with running_fake_api() as server, Api(server.target) as api:
        server.by_path["/api/v1/analytics/sites"] = page(rows)
        assert find_site(api, "sit_2")["id"] == 2
        with pytest.raises(CommandFailed, match=r"one of them: 1 \(Shop of shop\), 2 \(Shop of blog\)\."):
            find_site(api, "shop")


@pytest.mark.parametrize("slug", ["missing-scope", "deploy-not-allowed"])
def test_ping_keys_that_the_caller_may_not_see(slug: str) -> None:
    with running_fake_api() as server, Api(server.target) as api:
        server.answers.append(problem(403, slug, "No."))
        assert read_ping_keys(api, {"id": 3}) is None


def test_only_a_name_that_exists_is_shown_after_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict may also be a limit of the account."""
    environment = Namespace(id="1", path="shop/production")
    monkeypatch.setattr(monitor_commands, "resolve_environment", lambda *_, **__: environment)
    with running_fake_api() as server, Api(server.target) as api:
        _serve(server, _monitor(3, "backup"))
        for name, is_shown in (("backup", True), ("nightly", False)):
            server.by_path["/api/v1/environments/1/heartbeats"] = problem(409, "conflict", "No.")
            with pytest.raises(CommandFailed) as caught:
                monitor_commands.create(Namespace(name=name, environment=None), api, "heartbeat", {})
            assert (f"heartbeat show shop/production/{name}" in str(caught.value)) == is_shown
