"""A real deployer builds pushes from a real repository, even if the host returns the new commit late."""

import subprocess
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.projects.find import DeployTarget
from tests.support.databases import migrated_database
from tests.support.deploy_scenario import ACTOR, DeployScenario, fetch_app, open_scenario
from tests.support.deployer_process import DeployerProcess, deployer_process


@dataclass(frozen=True)
class Pushing:
    """A project, its staging environment and the application in it."""

    scenario: DeployScenario
    deployer: DeployerProcess
    target: DeployTarget
    slug: str

    def commit(self) -> str:
        return self.scenario.commit(self.slug, release=None)

    def show(self, revision: str) -> None:
        """Set the branch of the host to this commit; the host has all other commits as well."""
        bare = f"{self.scenario.folder / self.slug}.git"
        tip = ["git", "--git-dir", bare, "rev-parse", "refs/heads/main"]
        now = subprocess.run(tip, check=True, capture_output=True, text=True).stdout.strip()
        for ref, commit in ((f"refs/seen/{now}", now), ("refs/heads/main", revision)):
            subprocess.run(["git", "--git-dir", bare, "update-ref", ref, commit], check=True)

    async def push(self, before: str | None, revision: str) -> tuple[str, list[str]]:
        """Deploy the push of a webhook; return the running commit, and the log's lines about the host."""
        wish = DeploymentRequest("push", ref="main", pushed_revision=revision, pushed_from=before)
        async with self.scenario.sessions() as session, session.begin():
            number = (await queue_deployment(session, self.target, wish, ACTOR, datetime.now(UTC))).id
        assert await self.scenario.wait_final(number) == "succeeded", await self.scenario.lines(number)
        deployed = await self.scenario.read(number)
        assert deployed.revision is not None
        answer = fetch_app(self.deployer.port, f"staging.{self.slug}.localhost")
        assert isinstance(answer, dict) and answer["version"] == self.scenario.versions[deployed.revision]
        return deployed.revision, [line for line in await self.scenario.lines(number) if "behind" in line]


@pytest.fixture(scope="module")
async def running_deployer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[DeployScenario, DeployerProcess]]:
    folder = tmp_path_factory.mktemp("pushing")
    async with (
        migrated_database("sqlite", request, folder) as url,
        open_scenario(url, folder) as scenario,
        deployer_process(folder / "deployer", url) as deployer,
    ):
        yield scenario, deployer


@pytest.fixture
async def pushing(running_deployer: tuple[DeployScenario, DeployerProcess]) -> Pushing:
    """A new project for each test."""
    scenario, deployer = running_deployer
    slug = f"shop-{uuid.uuid4().hex[:8]}"
    return Pushing(scenario, deployer, (await scenario.add_project(slug))["staging"], slug)


async def test_a_push_deploys_the_newest_commit_of_the_branch(pushing: Pushing) -> None:
    first, second, third = [pushing.commit() for _ in range(3)]
    # The webhook arrives late: the branch has moved on.
    assert await pushing.push(first, second) == (third, [])
    # The webhooks arrive in the wrong order, and twice: no old code is deployed.
    assert await pushing.push(None, first) == (third, [])
    assert await pushing.push(second, third) == (third, [])


async def test_the_pushed_commit_is_built_if_the_host_still_returns_the_former_one(pushing: Pushing) -> None:
    first, second = [pushing.commit() for _ in range(2)]
    pushing.show(first)
    assert await pushing.push(first, second) == (
        second,
        [
            f"The Git host is behind its own webhook: main is still {first} there. Building {second}, which the "
            "webhook announced."
        ],
    )


async def test_the_former_commit_is_built_after_a_branch_was_reset(pushing: Pushing) -> None:
    first, second = [pushing.commit() for _ in range(2)]
    assert await pushing.push(first, second) == (second, [])
    pushing.show(first)
    # A repetition of the delivery does not undo the deployment.
    assert await pushing.push(first, second) == (first, [])
    assert await pushing.push(second, first) == (first, [])


async def test_a_third_commit_of_the_host_is_built(pushing: Pushing) -> None:
    first, second, third = [pushing.commit() for _ in range(3)]
    pushing.show(first)
    assert await pushing.push(second, third) == (first, [])
