"""The generated pages of `docs/reference/` match the code."""

from pathlib import Path

import pytest

from operator_cli.grammar.commands import COMMANDS
from operator_cli.reference_pages.all_pages import PAGES

_FOLDER = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_page_matches_the_code(name: str) -> None:
    written = (_FOLDER / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), f"docs/reference/{name} is out of date: run `make docs`"


def test_the_page_of_commands_has_all_of_them_with_their_verbs() -> None:
    headings = [line.lstrip("# ") for line in PAGES["cli.md"]().splitlines() if line.startswith("###")]
    assert {f"pharos {name}" for name in COMMANDS} <= set(headings)
    assert {"pharos heartbeat create", "pharos config plan", "pharos backup restore"} <= set(headings)
