"""The documentation lists every kind of alert of the program."""

from pathlib import Path

from pipeline_contracts.alert_kinds import ALERT_KINDS

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "notifications.md"
_DEFAULTS = {"on": "yes", "production": "in production", "off": "no"}


def test_the_table_of_kinds_is_that_of_the_program() -> None:
    lines = set(_PAGE.read_text().splitlines())
    missing = [
        line
        for kind in ALERT_KINDS.values()
        if kind.family != "test"
        and (line := f"| `{kind.name}` | {kind.meaning} | {kind.severity} | {_DEFAULTS[kind.default]} |")
        not in lines
    ]
    assert missing == []
