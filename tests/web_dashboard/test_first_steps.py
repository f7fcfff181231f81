"""The first steps of a new owner in the pages of an empty platform: the commands that empty pages show work."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.dashboard_browser import Person, running_browser, visitor
from tests.support.dashboard_walk import sign_in_by_printed_link
from tests.support.engines import skip_if_missing
from tests.support.platform_process import PlatformProcess, platform_process
from tests.support.waits import wait_for_result

_SHOWN = {
    "services": "Without a name",
    "exceptions": "no price for sku 42",
    "traces": "GET /cart",
    "logs": "Hello from curl",
    "metrics": "basket.size",
}
"""What each section of Monitoring shows once its command has run."""


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[tuple[Person, PlatformProcess]]:
    """The owner before the first sign-in, on a platform without data."""
    browsing = running_browser()
    with skip_if_missing():
        browser = await browsing.__aenter__()
    try:
        with platform_process(tmp_path / "data") as platform:
            async with visitor(browser, f"http://127.0.0.1:{platform.port}") as person:
                yield person, platform
    finally:
        await browsing.__aexit__(None, None, None)


async def test_the_commands_of_empty_pages_fill_them(owner: tuple[Person, PlatformProcess]) -> None:
    person, platform = owner
    page = person.page
    printed = platform.run("sign-in-link", "--quiet", "owner@localhost").stdout.strip()
    await _check_first_password(person, printed)
    await sign_in_by_printed_link(person, printed)

    # A newer project without data, which Monitoring must not open.
    newer = await person.request("POST", "/v1/projects", {"name": "Newer"})
    body = {"name": "Production", "type": "production"}
    await person.request("POST", f"/v1/projects/{newer['id']}/environments", body)
    environment = platform.credentials["environment_id"]
    for section in _SHOWN:
        await person.open(f"/monitoring/{environment}/{section}")
        command = await page.get_by_role("region", name="Send one with curl").inner_text()
        _run(command, platform.credentials["ingest_key"])
    platform.wait_until_consumed()
    for section, text in _SHOWN.items():
        await person.open(f"/monitoring/{environment}/{section}")
        await _wait_for_text(person, text)

    await page.evaluate("localStorage.clear()")
    await person.open("/monitoring")
    await page.wait_for_url(f"**/monitoring/{environment}/services")

    # The environment was looked at: forms begin with it.
    await person.open("/settings/keys")
    assert await page.get_by_label("Environment", exact=True).input_value() == environment
    assert person.watch.take() == []


async def _check_first_password(person: Person, printed: str) -> None:
    """The first sign-in asks for nothing but a password."""
    person.watch.expected.add(401)
    address = printed.partition("/sign-in")[2]
    await person.page.goto(f"{person.origin}/sign-in{address}")
    await person.page.get_by_role("heading", name="Choose a password").wait_for()
    shown = await person.page.inner_text("main")
    assert "API tokens" not in shown
    assert "present password" not in shown


async def _wait_for_text(person: Person, text: str) -> None:
    """Wait until the page shows the text; columns are readable a moment after the records were consumed."""

    async def shows() -> bool:
        if text in await person.page.inner_text("main"):
            return True
        await person.open(person.page.url.removeprefix(person.origin))
        return False

    await wait_for_result(shows)


def _run(command: str, key: str) -> None:
    done = subprocess.run(
        ["bash", "-ec", command],
        env={"PATH": os.environ["PATH"], "KEY": key},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert '"type":"/problems' not in done.stdout, done.stdout
