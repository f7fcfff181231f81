"""Compares the figures on a page with the API responses that the page has received."""

import json
import re
import time
from collections.abc import Iterable
from functools import lru_cache

from playwright.async_api import Error, Request

from tests.support.dashboard_browser import Person
from tests.support.figures.expected import Shown

# A page may take a newer response while its rows are read.
_SECONDS = 5.0
_STEP_SECONDS = 0.2
# Texts of rows, tiles and lines, each with its titles and times.
_READ_LINES = """() => {
  const lines = [...document.querySelectorAll(
    'h1, h2, h3, p, tr, li, summary, button, .tile, .fact, .facts, .started, .disk, .row, .progress, dl, dl > div')]
  return lines.map((line) => [line.innerText, ...[line, ...line.querySelectorAll('[title], [datetime], input')]
    .flatMap((each) => [each.title, each.getAttribute('datetime'), each.value])].filter(Boolean).join(' ')
    .replace(/\\s+/g, ' '))
}"""


class Answers:
    """The newest API response of each address that a page has received since `clear`."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._got: dict[str, Request] = {}
        person.page.on("requestfinished", self._note)

    def clear(self) -> None:
        self._got.clear()

    def _note(self, request: Request) -> None:
        path = request.url.partition("/api/v1/")[2]
        if path and request.method == "GET" and not path.startswith("changes"):
            self._got[path] = request

    async def find_wrong(self, shown: Shown) -> list[str]:
        """Return the figures of the responses that the page does not show, and the responses that are missing."""
        deadline = time.monotonic() + _SECONDS
        while True:
            wrong = await self._compare(shown)
            if not wrong or time.monotonic() > deadline:
                return wrong
            await self._person.page.wait_for_timeout(_STEP_SECONDS * 1000)
            await self._person.wait_until_quiet()

    async def _compare(self, shown: Shown) -> list[str]:
        lines: list[str] = await self._person.page.evaluate(_READ_LINES)
        wrong = []
        for path, read in shown.items():
            found = [asked for asked in self._got if re.fullmatch(path, asked.partition("?")[0])]
            if not found:
                wrong.append(f"the page has not asked for {path}, but for {', '.join(self._got)}")
            for asked in found:
                document = json.loads(await self._read(asked))["data"]
                wrong += [f"{asked}: {miss}" for miss in _find_missing(lines, read(document))]
        return wrong

    async def _read(self, asked: str) -> str:
        try:
            response = await self._got[asked].response()
            assert response is not None
            return await response.text()
        except Error as error:
            raise AssertionError(f"the response to {asked} is gone: {error}") from error


def _find_missing(lines: list[str], expected: Iterable[list[str]]) -> list[str]:
    wrong = []
    for texts in expected:
        patterns = [_whole(" ".join(text.split())) for text in texts]
        if not any(all(each.search(line) for each in patterns) for line in lines):
            near = [line[:200] for line in lines if patterns[0].search(line)][:3]
            wrong.append(f"no line has {texts}; with the first of them: {near}")
    return wrong


@lru_cache(maxsize=10_000)
def _whole(text: str) -> re.Pattern[str]:
    """Return a pattern for a text that is not a part of another number or word."""
    before = r"(?<![\w.,])" if text[:1].isalnum() else ""
    after = r"(?![\w]|[.,]\d)" if text[-1:].isalnum() else ""
    return re.compile(before + re.escape(text) + after)
