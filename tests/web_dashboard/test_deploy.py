"""The deploy pages on a real platform: deploy, follow the log, roll back, and approve as a second person."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.dashboard_browser import Person, running_browser, sign_in, visitor
from tests.support.engines import skip_if_missing
from tests.support.platform_process import PlatformProcess

_SECOND = "grace@example.com"


@pytest.fixture
async def people(tmp_path: Path) -> AsyncIterator[tuple[Person, Person, PlatformProcess]]:
    """The owner and a second admin, each with a browser, on a platform with the sample repository."""
    platform = PlatformProcess(tmp_path / "data")
    browsing = running_browser()
    with skip_if_missing():
        browser = await browsing.__aenter__()
    try:
        platform.start()
        origin = f"http://127.0.0.1:{platform.port}"
        async with visitor(browser, origin) as owner, visitor(browser, origin) as second:
            await sign_in(owner, platform, "owner@localhost")
            invitation = await owner.request("POST", "/v1/invitations", {"email": _SECOND, "role": "admin"})
            accepted = {"invitation": invitation["secret"], "name": "Grace Lind"}
            await owner.request("POST", "/v1/invitations/accept", accepted)
            await sign_in(second, platform, _SECOND)
            yield owner, second, platform
    finally:
        platform.kill()
        await browsing.__aexit__(None, None, None)


async def test_deploy_roll_back_and_approve(people: tuple[Person, Person, PlatformProcess]) -> None:
    owner, second, platform = people
    project, environment = platform.credentials["project_id"], platform.credentials["environment_id"]
    place = f"/deploy/{project}/{environment}"
    first = await _deploy(owner, place)
    await owner.page.get_by_text("Live after").first.wait_for()
    await _check_against_api(owner, first)
    # The project has one environment: there is none to promote to.
    await owner.wait_until_quiet()
    assert await owner.page.get_by_role("button", name="Promote").count() == 0
    again = await _deploy(owner, place)
    assert again > first

    # Roll back: the release of the first deployment goes live by a third one.
    await owner.open(place)
    await owner.page.get_by_role("button", name="Roll back").click()
    await owner.page.get_by_role("button", name=f"Roll back to #{first}").click()
    rolled = await _wait_until_succeeded(owner)
    details = await owner.request("GET", f"/v1/deployments/{rolled}/details")
    assert (details["trigger"], details["rolled_back_to_build_id"]) == ("rollback", first)
    await owner.open(place)
    await owner.page.get_by_role("button", name="Resume pushes").wait_for()

    # From now on a second person approves; the requester cannot.
    await owner.request("PATCH", f"/v1/environments/{environment}", {"approval": {"deploys": True}})
    await owner.open(place)
    await owner.page.get_by_role("button", name="Deploy", exact=True).click()
    await owner.page.get_by_role("button", name="Ask for approval").click()
    await owner.page.get_by_text("You asked for it, so somebody else must approve it.").wait_for()
    waiting = int(owner.page.url.rsplit("/", 1)[1])
    await second.open("/deploy?tab=approvals")
    await second.page.get_by_role("link", name=f"Deployment #{waiting}").wait_for()
    await second.page.get_by_role("button", name="Approve").click()
    await second.page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    # The dialog closes with the response. Leaving the page earlier would cancel the request.
    await second.page.get_by_role("dialog").wait_for(state="hidden")
    await second.open(f"/deployments/{waiting}")
    assert await _wait_until_succeeded(second) == waiting
    assert "Grace Lind" in await second.page.inner_text("main")
    assert owner.watch.take() == second.watch.take() == []


async def _deploy(person: Person, place: str) -> int:
    """Deploy with the button, and return the number once the deployment has succeeded."""
    await person.open(place)
    await person.page.get_by_role("button", name="Deploy", exact=True).click()
    await person.page.get_by_role("dialog").get_by_role("button", name="Deploy", exact=True).click()
    return await _wait_until_succeeded(person)


async def _wait_until_succeeded(person: Person) -> int:
    await person.page.wait_for_url("**/deployments/*")
    number = int(person.page.url.rsplit("/", 1)[1])
    # The address changes before the page does, and the former page lists other deployments.
    await person.page.get_by_role("heading", name=f"Deployment #{number}").wait_for()
    await person.page.locator(".status").get_by_text("Succeeded", exact=True).wait_for()
    return number


async def _check_against_api(person: Person, number: int) -> None:
    """Check that the page shows the values of the API: the commit, its author, the steps and each line of the log."""
    details: Any = await person.request("GET", f"/v1/deployments/{number}/details")
    log: Any = await person.request("GET", f"/v1/deployments/{number}/log")
    text = await person.page.inner_text("main")
    expected = [details["revision"][:7], details["commit_subject"], details["commit_author"]]
    expected += [line["text"] for line in log["lines"]]
    assert [each for each in expected if each not in text] == []
    steps = await person.page.get_by_role("list", name="Steps").get_by_role("listitem").count()
    # With the queue before and the live release after.
    assert steps == len(details["steps"]) + 2
