"""What is built of a push, by a real deployer from a real repository: what its branch has, even if the host shows that
late."""

import subprocess
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from control_domain.deployments.queue_deployment import Wish, queue_deployment
from control_domain.projects.find import Place
from tests.support.databases import migrated_database
from tests.support.deploy_stage import ACTOR, Stage, ask, open_stage
from tests.support.deployer_process import DeployerProcess, deployer_process


@dataclass(frozen=True)
class Pushing:
    """A project whose staging is deployed to, and what answers there."""

    stage: Stage
    deployer: DeployerProcess
    place: Place
    slug: str

    def commit(self) -> str:
        return self.stage.commit(self.slug, release=None)

    def show(self, revision: str) -> None:
        """Let the host's branch be there; it has all other commits as well."""
        bare = f"{self.stage.folder / self.slug}.git"
        tip = ["git", "--git-dir", bare, "rev-parse", "refs/heads/main"]
        now = subprocess.run(tip, check=True, capture_output=True, text=True).stdout.strip()
        for ref, commit in ((f"refs/seen/{now}", now), ("refs/heads/main", revision)):
            subprocess.run(["git", "--git-dir", bare, "update-ref", ref, commit], check=True)

    async def push(self, before: str | None, revision: str) -> tuple[str, list[str]]:
        """Deploy what a webhook tells; gives the commit that answers, and what the log says of the host."""
        wish = Wish("push", ref="main", pushed_revision=revision, pushed_from=before)
        async with self.stage.sessions() as session, session.begin():
            number = (await queue_deployment(session, self.place, wish, ACTOR, datetime.now(UTC))).id
        assert await self.stage.wait_final(number) == "succeeded", await self.stage.lines(number)
        deployed = await self.stage.read(number)
        assert deployed.revision is not None
        answer = ask(self.deployer.port, f"staging.{self.slug}.localhost")
        assert isinstance(answer, dict) and answer["version"] == self.stage.versions[deployed.revision]
        return deployed.revision, [line for line in await self.stage.lines(number) if "behind" in line]


@pytest.fixture(scope="module")
async def running_deployer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Stage, DeployerProcess]]:
    folder = tmp_path_factory.mktemp("pushing")
    async with (
        migrated_database("sqlite", request, folder) as url,
        open_stage(url, folder) as stage,
        deployer_process(folder / "deployer", url) as deployer,
    ):
        yield stage, deployer


@pytest.fixture
async def pushing(running_deployer: tuple[Stage, DeployerProcess]) -> Pushing:
    """A project of its own for each test."""
    stage, deployer = running_deployer
    slug = f"shop-{uuid.uuid4().hex[:8]}"
    return Pushing(stage, deployer, (await stage.add_project(slug))["staging"], slug)


async def test_a_push_deploys_what_the_branch_has_by_then(pushing: Pushing) -> None:
    first, second, third = [pushing.commit() for _ in range(3)]
    # Told late: the branch has gone on.
    assert await pushing.push(first, second) == (third, [])
    # Told in the wrong order, and once more: no old code comes back.
    assert await pushing.push(None, first) == (third, [])
    assert await pushing.push(second, third) == (third, [])


async def test_a_host_that_is_behind_its_own_webhook_is_not_believed(pushing: Pushing) -> None:
    first, second = [pushing.commit() for _ in range(2)]
    pushing.show(first)
    assert await pushing.push(first, second) == (
        second,
        [
            f"The host's Git is behind its own webhook: main is still {first} there. Building {second}, of which the "
            "webhook has told."
        ],
    )


async def test_a_branch_that_was_set_back_is_believed(pushing: Pushing) -> None:
    first, second = [pushing.commit() for _ in range(2)]
    assert await pushing.push(first, second) == (second, [])
    pushing.show(first)
    # The same delivery again does not undo it.
    assert await pushing.push(first, second) == (first, [])
    assert await pushing.push(second, first) == (first, [])


async def test_a_host_that_shows_neither_commit_is_believed(pushing: Pushing) -> None:
    first, second, third = [pushing.commit() for _ in range(3)]
    pushing.show(first)
    assert await pushing.push(second, third) == (first, [])
