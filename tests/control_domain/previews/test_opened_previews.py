"""Previews that people open."""

from typing import Any

import pytest

from control_domain.environments.change import NewEnvironment, add_environment
from control_domain.previews import operations as previews
from control_domain.previews.operations import find_previews
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Environment
from control_domain.variables.versions import find_newest_variables, open_variables
from pipeline_contracts.errors import Unavailable
from tests.support import deployment_rows
from tests.support.managed_project import NOW, ManagedProject


async def _preview(managed: ManagedProject, branch: str) -> Environment:
    async with managed.engines.sessions() as session:
        (environment,) = await find_previews(session, managed.project, branch)
        return environment


async def _values(managed: ManagedProject, environment: Environment) -> dict[str, str]:
    async with managed.engines.sessions() as session:
        present = await find_newest_variables(session, environment)
    assert present is not None
    return open_variables(managed.engines.sealing_keys, present, environment.public_id)


async def test_a_branch_gets_an_environment_of_its_own(managed: ManagedProject) -> None:
    (environment, _), deployment = await managed.open_preview("feature/Login")
    assert (environment.name, environment.slug) == ("Preview of feature/Login", "preview-feature-login")
    assert (environment.type, environment.branch) == ("preview", "feature/Login")
    assert (environment.position, environment.wake_on_request) == (0, True)
    assert (deployment.trigger, deployment.ref, deployment.status) == ("api", None, "queued")
    details = {
        "project": managed.project.public_id,
        "name": "Preview of feature/Login",
        "slug": "preview-feature-login",
        "type": "preview",
        "branch": "feature/Login",
    }
    _, created, *_ = await managed.read_audit_log()
    assert (created[0], created[2], created[4]) == ("environment.create", "deployer@acme.example", details)


async def test_a_hibernated_preview_runs_again(managed: ManagedProject) -> None:
    (preview, _), first = await managed.open_preview("login")
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.begin_deployment(session, first.id, NOW)
        await deployment_rows.complete_deployment(session, first.id, NOW)
    await managed.change(Environment, preview.id, state="hibernated")
    (again, _), second = await managed.open_preview("login", by="maintainer")
    assert (again.id, again.state, second.id != first.id) == (preview.id, "running", True)
    assert second.asked_by_id == managed.people["maintainer"].id


async def test_slugs_are_unique_and_short(managed: ManagedProject) -> None:
    branches = ["feature/a", "feature-a", "x" * 120, "x" * 121, "東京", "main"]
    slugs = [(await managed.open_preview(branch))[0].environment.slug for branch in branches]
    assert (slugs[0], slugs[-1]) == ("preview-feature-a", "preview-main")
    assert slugs[1].startswith("preview-feature-a-")
    assert len(set(slugs)) == len(branches)
    assert max(map(len, slugs)) == 60
    for branch, slug in zip(branches, slugs, strict=True):
        environment = await _preview(managed, branch)
        assert (environment.slug, len(environment.name) <= 100) == (slug, True)
    # An environment that a person has created is not a preview.
    async with managed.engines.sessions() as session, session.begin():
        new = NewEnvironment("Preview of b", "staging", "preview-b", branch="b")
        await add_environment(session, managed.project, new, managed.actor(), NOW)
    (opened, _), _ = await managed.open_preview("b")
    assert opened.slug.startswith("preview-b-")


@pytest.mark.both_databases
async def test_a_preview_created_meanwhile_is_reused(
    managed: ManagedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second preview of the branch would never be closed."""
    made: list[int] = []
    free_slug = previews._free_slug

    async def make_before(*arguments: Any) -> str:
        if not made:
            made.append(0)
            made.append((await managed.open_preview("login"))[1].id)
        return await free_slug(*arguments)

    monkeypatch.setattr(previews, "_free_slug", make_before)
    _, deployment = await managed.open_preview("login")
    assert made == [0, deployment.id]
    assert await managed.count(Environment, Environment.type == "preview") == 1


async def test_variables_are_copied_on_request(managed: ManagedProject) -> None:
    await managed.set_variables("A=1\nB=two\n")
    (preview, _), _ = await managed.open_preview("login", "production")
    assert await _values(managed, preview) == {"A": "1", "B": "two"}
    actions = [entry[0] for entry in await managed.read_audit_log()]
    assert actions[:3] == ["deployment.queue", "variables.replace", "environment.create"]
    assert "two" not in str(await managed.read_audit_log())
    await managed.set_variables("A=2\n")
    await managed.open_preview("login")
    assert await _values(managed, preview) == {"A": "1", "B": "two"}
    await managed.open_preview("login", "production")
    assert await _values(managed, preview) == {"A": "2"}


async def test_of_an_environment_without_variables_none_are_copied(managed: ManagedProject) -> None:
    (preview, _), _ = await managed.open_preview("login", "production")
    assert await _values(managed, preview) == {}


async def test_an_existing_preview_gets_the_gate_with_the_variables(managed: ManagedProject) -> None:
    await managed.set_variables("A=1\n")
    await managed.open_preview("login")
    await managed.change_environment(deploys_need_approval=True)
    await managed.open_preview("login", "production")
    assert (await _preview(managed, "login")).deploys_need_approval
    (details,) = [entry[4] for entry in await managed.read_audit_log() if "variables_of" in entry[4]]
    assert details["variables_of"] == "production"


async def test_variables_need_the_key_they_are_sealed_with(managed: ManagedProject) -> None:
    await managed.set_variables("A=1\n")
    before = len(await managed.read_audit_log())
    managed.engines = type(managed.engines)(
        managed.engines.sessions, managed.engines.directory, sealing_keys=SealingKeys([b"n" * 32])
    )
    with pytest.raises(Unavailable, match="cannot be opened here"):
        await managed.open_preview("login", "production")
    assert await managed.count(Environment, Environment.type == "preview") == 0
    assert len(await managed.read_audit_log()) == before
