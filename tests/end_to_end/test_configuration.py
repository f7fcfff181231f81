"""Configurations on a running platform take effect on deployments, sites and monitors."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.configuration_client import ConfigurationClient, create_configured_project
from tests.support.configuration_texts import CONTRACT
from tests.support.deployed_apps import page_app
from tests.support.fifty_steps import AFTER, BEFORE, BINDINGS, COUNT, DELETED
from tests.support.installation import Installation, running_installation
from tests.support.repositories import Repository
from tests.support.waits import wait_until, wait_within

_SITE = "version: 2\nsites: {told: {domains: [%s]}}\n"
_KNOWN_SECONDS = 5.0


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_installation(
        tmp_path_factory.mktemp("configured"), PHAROS_DEPLOY_DRAIN_SECONDS="1"
    ) as created:
        yield created


@pytest.fixture
def project(installation: Installation, request: pytest.FixtureRequest) -> ConfigurationClient:
    """A new project for each test."""
    return create_configured_project(installation.platform, request.node.name[:60])


def _collect(project: ConfigurationClient, tracker_id: str, origin: str) -> int:
    """Send a page view and return the status of the response."""
    event = {"id": str(uuid.uuid4()), "type": "pageview", "path": "/"}
    headers = {
        "Content-Type": "text/plain;charset=UTF-8",
        "Origin": origin,
        "User-Agent": "Mozilla/5.0 Firefox/140.0",
    }
    body = json.dumps({"events": [event]}).encode()
    return project.platform.request(
        "POST", f"/api/v1/collect/{tracker_id}", body=body, headers=headers
    ).status


def _signal(project: ConfigurationClient, heartbeat: int, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    body = json.dumps({"run_id": str(uuid.uuid4()), "signal": "success"}).encode()
    return project.platform.request(
        "POST", f"/api/v1/heartbeats/{heartbeat}", body=body, headers=headers
    ).status


def test_the_example_document_of_the_contract_is_applied(project: ConfigurationClient) -> None:
    database = "postgresql://shop:secret@db.internal/shop"
    planned = project.plan(CONTRACT, production_database=database)
    assert planned["summary"] == {"create": 4, "update": 1, "delete": 0}
    assert [action["resource"] for action in planned["actions"]] == [
        "project",
        "environments.production",
        "environments.production.heartbeats.nightly-backup",
        "environments.production.queues.default",
        "sites.www",
    ]
    applied = project.apply(CONTRACT, production_database=database)
    output = [
        {name: one[name] for name in ("action", "resource", "changes")} for one in applied["operations"]
    ]
    assert output == planned["actions"]
    assert [(one["status"], one["error"], one["attempts"]) for one in applied["operations"]] == [
        ("succeeded", None, 1)
    ] * 5
    described = project.call("GET", f"projects/{project.project}").json["data"]
    (environment,) = described["environments"]
    assert (described["name"], environment["desired_replicas"], environment["state"]) == (
        "Shop",
        2,
        "running",
    )
    # From now on variables wait for a second person, and plans skip waiting variables.
    project.apply(CONTRACT, production_database="another")
    again = project.plan(CONTRACT, production_database="another")
    assert again["awaiting_approval"] == ["environments.production.variables"]
    assert project.plan(CONTRACT, production_database=database)["summary"]["update"] == 1


def test_a_site_is_served_on_its_configured_domains(project: ConfigurationClient) -> None:
    one, other = "https://one.example", "https://other.example"
    project.apply(_SITE % f'"{one}"')
    (site,) = [site for site in project.run_json("site", "list") if site["name"] == "told"]
    tracker = site["tracker_id"]
    assert (_collect(project, tracker, one), _collect(project, tracker, other)) == (202, 403)
    project.apply(_SITE % f'"{one}", "{other}"')
    wait_within(_KNOWN_SECONDS, lambda: _collect(project, tracker, other) == 202)
    project.apply(_SITE % f'"{other}"')
    wait_within(_KNOWN_SECONDS, lambda: _collect(project, tracker, one) == 403)
    assert _collect(project, tracker, other) == 202
    project.apply("version: 2\ndelete: [sites.told]\n")
    wait_within(_KNOWN_SECONDS, lambda: _collect(project, tracker, other) == 404)


def test_keys_of_removed_monitors_are_refused(project: ConfigurationClient) -> None:
    document = "version: 2\nenvironments: {live: {type: production, heartbeats: {%s}}}\n"
    project.apply(document % "one: {period: 1h}, other: {period: 1h}")
    rows = {
        row["name"]: row["id"]
        for row in project.run_json("heartbeat", "list")
        if row["name"] in ("one", "other")
    }
    keys = {name: project.run_json("heartbeat", "new-key", str(rows[name]))["key"] for name in rows}
    assert {_signal(project, rows[name], key) for name, key in keys.items()} == {202}
    project.apply("version: 2\ndelete: [environments.live.heartbeats.one]\n")
    wait_within(_KNOWN_SECONDS, lambda: _signal(project, rows["one"], keys["one"]) == 401)
    assert _signal(project, rows["other"], keys["other"]) == 202
    project.apply("version: 2\ndelete: [environments.live]\n")
    wait_within(_KNOWN_SECONDS, lambda: _signal(project, rows["other"], keys["other"]) == 401)


def test_the_live_release_follows_its_configuration(installation: Installation, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "app.git")
    repository.commit(page_app("live"))
    app = installation.create_app("Configured app", repository)
    app.deploy_live()
    project = ConfigurationClient(
        installation.platform, installation.run_json("project", "show", app.project)["id"]
    )
    document = "version: 2\nenvironments: {production: {type: production, replicas: %d, state: %s}}\n"
    project.apply(document % (3, "running"))
    wait_until(lambda: len(app.instances()) == 3)
    project.apply(document % (3, "hibernated"))
    wait_until(lambda: app.get()[0] == 503)
    wait_until(lambda: app.runners() == [])
    project.apply(document % (1, "running"))
    wait_until(lambda: app.is_up() and len(app.instances()) == 1)
    assert app.get() == (200, "live")
    project.apply("version: 2\ndelete: [environments.production]\n")
    wait_until(lambda: app.get()[0] == 404)
    wait_until(lambda: app.runners() == [])


def test_a_restarted_platform_continues_the_run_of_a_killed_one(
    installation: Installation, project: ConfigurationClient
) -> None:
    project.apply(BEFORE, **BINDINGS)
    (site,) = [site for site in project.run_json("site", "list") if site["name"] == "old-1"]
    number = project.start_run(AFTER + DELETED, **BINDINGS)
    for _ in range(2):
        installation.platform.kill()
        installation.start()
    ended = project.wait_run(number)
    assert [one["status"] for one in ended["operations"]] == ["succeeded"] * COUNT
    assert project.plan(AFTER + DELETED, **BINDINGS)["actions"] == []
    output = [
        entry for entry in project.run_json("audit", "--limit", "1000") if entry["source"] == "127.0.0.1"
    ]
    removed = [entry["subject"] for entry in output if entry["action"].endswith(".remove")]
    assert len(removed) == len({*removed}) >= 15
    assert _collect(project, site["tracker_id"], "https://one.example") == 404
