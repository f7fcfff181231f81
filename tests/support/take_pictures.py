"""Take pictures of the dashboard of a running demo, to review them or to renew those of `docs/`.

python -m tests.support.take_pictures --data DIR --to FOLDER [--only TEXT] [--form FORM] [--built FOLDER]
python -m tests.support.take_pictures --data DIR --docs

DIR is the folder of a running `pharos up --demo --data DIR`. The owner is signed in through a one-time link, which
replaces their password. Without `--demo`, the pictures show the pages of an empty installation.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Route

from tests.support.dashboard_browser import DESKTOP, DRAWN, PHONE, Person, running_browser, sign_in, visitor
from tests.support.dashboard_pages import DemoObjects
from tests.support.dashboard_views import View, list_views, list_views_of_docs
from tests.support.platform_process import PlatformProcess

_DOCS = Path(__file__).parents[2] / "docs" / "images"
_LARGEST_BYTES = 250_000
_IN_README = "overview"
"""The picture that is also taken in dark mode: the README shows the one that matches the reader's system."""
_OPEN_MS = 5_000
_LATE_SECONDS = 4.0
"""Marks of deployments and log lines of a trace arrive after the rest of the page."""
_FORMS = {"light": DESKTOP, "dark": DESKTOP, "phone": PHONE}


async def take_pictures(
    data: Path, to: Path, *, only: str, forms: list[str], built: Path | None
) -> list[str]:
    """Store pictures of all views, in the forms. Return the views that could not be shown."""
    platform = _attach(data)
    values = _Values(platform)
    problems: list[str] = []
    async with running_browser() as browser:
        async with visitor(browser, f"http://127.0.0.1:{platform.port}") as owner:
            await _serve_built(owner.context, built)
            await sign_in(owner, platform, "owner@localhost")
            for view in list_views():
                address = values.fill(view)
                if view.is_public or address is None or only not in view.name:
                    continue
                problems += await _take_each(owner, view, address, to, forms)
        async with visitor(browser, f"http://127.0.0.1:{platform.port}") as stranger:
            await _serve_built(stranger.context, built)
            for view in list_views():
                if view.is_public and only in view.name:
                    problems += await _take_each(stranger, view, view.pattern, to, forms)
    return problems


async def renew_docs(data: Path) -> list[str]:
    """Renew `docs/images`. Return which pictures are too large for a repository."""
    platform = _attach(data)
    values = DemoObjects(platform).fill_in()
    problems = []
    async with running_browser() as browser, visitor(browser, f"http://127.0.0.1:{platform.port}") as owner:
        await sign_in(owner, platform, "owner@localhost")
        for name, view in list_views_of_docs().items():
            await owner.open(str(view.fill(values)))
            await asyncio.sleep(_LATE_SECONDS)
            if name == "trace":
                spans = owner.page.get_by_role("list", name="Spans")
                await spans.locator("[aria-pressed]").first.click()
                await owner.wait_until_quiet()
            await owner.page.screenshot(path=_DOCS / f"{name}.png")
            if name == _IN_README:
                await owner.page.emulate_media(color_scheme="dark")
                await owner.page.evaluate(DRAWN)
                await owner.page.screenshot(path=_DOCS / f"{name}-dark.png")
                await owner.page.emulate_media(color_scheme="light")
    for path in _DOCS.glob("*.png"):
        if path.stat().st_size > _LARGEST_BYTES:
            problems.append(f"{path} has {path.stat().st_size} bytes, more than {_LARGEST_BYTES}")
    return problems


async def _take_each(person: Person, view: View, address: str, to: Path, forms: list[str]) -> list[str]:
    page = person.page
    problems = []
    for form in forms:
        await page.set_viewport_size(_FORMS[form])
        await page.emulate_media(color_scheme="dark" if form == "dark" else "light")
        try:
            await person.open(address)
            if view.opened:
                await _open(person, view.opened)
        except (AssertionError, LookupError) as error:
            problems.append(f"{view.name}, {form}: {error}")
            continue
        path = to / f"{view.name}-{form}.png"
        if view.opened:
            path.parent.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=path)
        else:
            await person.take_picture(path)
        print(path)
    return problems


async def _open(person: Person, opened: str) -> None:
    """Press a button, and wait for the dialog that it opens. Raises `LookupError`."""
    button = person.page.get_by_role("button", name=opened).locator("visible=true")
    if opened == "Go to …" and not await button.count():
        button = person.page.get_by_role("button", name="Search")
    if not await button.count() or not await button.first.is_enabled():
        raise LookupError(f"the page has no button {opened} that can be pressed")
    await button.first.click()
    await person.page.get_by_role("dialog").wait_for(timeout=_OPEN_MS)
    await person.wait_until_quiet()
    await person.page.evaluate(DRAWN)


def _attach(data: Path) -> PlatformProcess:
    platform = PlatformProcess(data)
    platform.port = urlsplit(platform.credentials["base_url"]).port or 80
    return platform


class _Values:
    """Values of the parameters of addresses."""

    def __init__(self, platform: PlatformProcess) -> None:
        objects = DemoObjects(platform)
        self._values = objects.fill_in_known()
        try:
            self._of_configuration_runs = objects.fill_in_configuration()
        except LookupError:
            self._of_configuration_runs = {}

    def fill(self, view: View) -> str | None:
        """Return the address of a view, or None if an object of it does not exist."""
        is_of_run = ":application" in view.pattern or ":review" in view.pattern
        return view.fill(self._of_configuration_runs if is_of_run else self._values)


async def _serve_built(context: BrowserContext, built: Path | None) -> None:
    """Serve the pages from the folder of another build, and the rest from the server."""
    if built is None:
        return
    page = (built / "index.html").read_text(encoding="utf-8")

    async def serve(route: Route) -> None:
        asset = built / urlsplit(route.request.url).path.lstrip("/")
        if route.request.resource_type == "document":
            await route.fulfill(response=await route.fetch(), body=page)
        elif asset.is_file():
            await route.fulfill(path=asset)
        else:
            await route.continue_()

    await context.route(lambda url: "/api/" not in url, serve)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the running `pharos up`")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--to", type=Path, metavar="FOLDER", help="folder of the pictures")
    target.add_argument("--docs", action="store_true", help="renew the pictures of docs/images")
    parser.add_argument("--only", default="", metavar="TEXT", help="only pictures whose name contains it")
    parser.add_argument("--form", choices=_FORMS, action="append", help="take only this form, such as phone")
    parser.add_argument("--built", type=Path, metavar="FOLDER", help="take the pages from this build")
    given = parser.parse_args()
    if given.docs:
        problems = asyncio.run(renew_docs(given.data))
    else:
        forms = given.form or list(_FORMS)
        problems = asyncio.run(
            take_pictures(given.data, given.to, only=given.only, forms=forms, built=given.built)
        )
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
