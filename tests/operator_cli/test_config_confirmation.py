"""`pharos config apply` stores a review only after its plan was confirmed, and applies only the plan that it showed."""

import io
import re
from pathlib import Path
from typing import Any

import pytest

from operator_cli.configuration import apply
from operator_cli.errors import CommandFailed
from operator_cli.grammar.build_parser import build_parser

_PLAN = {
    "fingerprint": "sha256:1",
    "summary": {"create": 1, "update": 0, "delete": 0},
    "actions": [{"action": "create", "resource": "sites.www", "changes": []}],
    "unmanaged": [],
    "awaiting_approval": [],
}
_REVIEW = {"id": 7, "plan": _PLAN, "expires_at": "2026-11-26T10:20:00Z"}
_RUN = {"id": 3, "status": "succeeded", "operations": []}


class _Api:
    """An API with one project. Records the last part of each path that is posted to."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.posted: list[str] = []

    def list_once(self, *_path: str) -> list[dict[str, Any]]:
        return [{"id": "prj_1", "slug": "shop", "name": "Shop", "environments": []}]

    def post(self, *path: Any, body: object = None) -> dict[str, Any]:
        self.posted.append(path[-1])
        return {"plan": self.plan, "reviews": _REVIEW, "apply": _RUN}[path[-1]]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _apply(monkeypatch: pytest.MonkeyPatch, folder: Path, api: _Api, stdin: io.StringIO, *flags: str) -> int:
    document = folder / "shop.yaml"
    document.write_text("version: 2\n")
    monkeypatch.setattr(apply, "open_api", lambda _arguments: api)
    monkeypatch.setattr("sys.stdin", stdin)
    return apply.apply_configuration(
        build_parser("config").parse_args(["config", "apply", str(document), *flags])
    )


@pytest.mark.parametrize(
    ("typed", "flags", "status", "posted"),
    [
        ("no\n", (), 1, ["plan"]),
        ("", (), 1, ["plan"]),
        ("yes\n", (), 0, ["plan", "reviews", "apply"]),
        ("", ("--yes",), 0, ["plan", "reviews", "apply"]),
    ],
)
def test_a_review_is_stored_after_the_plan_was_confirmed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    typed: str,
    flags: tuple[str, ...],
    status: int,
    posted: list[str],
) -> None:
    api = _Api(_PLAN)
    assert _apply(monkeypatch, tmp_path, api, _Terminal(typed), *flags) == status
    assert api.posted == posted


def test_without_a_terminal_and_yes_nothing_is_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = _Api(_PLAN)
    with pytest.raises(CommandFailed, match="add --yes"):
        _apply(monkeypatch, tmp_path, api, io.StringIO("yes\n"))
    assert api.posted == ["plan"]


def test_a_plan_without_changes_is_not_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    api = _Api({**_PLAN, "actions": []})
    assert _apply(monkeypatch, tmp_path, api, io.StringIO(), "--yes") == 0
    assert api.posted == ["plan"]


@pytest.mark.parametrize("other", [{"fingerprint": "sha256:2"}, {"unmanaged": ["sites.shop"]}])
def test_a_plan_that_was_not_shown_is_not_applied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, other: dict[str, Any]
) -> None:
    api = _Api({**_PLAN, **other})
    message = (
        "The project was changed after its plan was shown, so nothing was applied. Plan again: `pharos config apply`. "
        "Review 7 has the new plan, and can be applied until 10:20 UTC: "
        "`pharos config apply --review 7 --project shop` shows it and asks."
    )
    with pytest.raises(CommandFailed, match=re.escape(message)):
        _apply(monkeypatch, tmp_path, api, _Terminal("yes\n"))
    assert api.posted == ["plan", "reviews"]
