"""Texts of commands about an outcome: names that are not set, states, titles, and sources of deployments."""

import argparse
from typing import Any

import pytest

from operator_cli.deployments import deploy
from operator_cli.deployments.tables import show_deployments
from operator_cli.environments import variables
from operator_cli.errors import NoSuchName
from operator_cli.grammar.build_parser import build_parser
from operator_cli.telemetry.event_line import join_title


class _Api:
    """An API whose only environment has the variables A and B."""

    def __init__(self) -> None:
        self.patched: list[Any] = []

    def list_once(self, *_path: str) -> list[dict[str, Any]]:
        environments = [{"id": "env_1", "slug": "staging", "name": "Staging"}]
        return [{"id": "prj_1", "slug": "shop", "name": "Shop", "environments": environments}]

    def get(self, *path: str) -> dict[str, Any]:
        if path[1] == "13":
            raise NoSuchName("The account has no such environment.")
        return {"variables": [{"name": name, "is_set": True} for name in "AB"]}

    def patch(self, *path: str, body: Any) -> dict[str, Any]:
        self.patched.append(body)
        return {"variables": []}


def test_names_that_are_not_set_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = _Api()
    monkeypatch.setattr(variables, "open_api", lambda _arguments: api)

    def unset(*names: str) -> int:
        arguments = build_parser("variables").parse_args(["variables", "unset", "staging", *names])
        return variables._run(arguments)

    with pytest.raises(
        NoSuchName, match="shop/staging has no NOPE; `pharos variables show shop/staging` lists"
    ):
        unset("NOPE", "NOPE")
    assert api.patched == []
    assert unset("A", "NOPE") == 0
    assert api.patched == [{"unset": ["A", "NOPE"]}]
    assert capsys.readouterr().err == "Not set before in shop/staging: NOPE.\n"


def test_a_number_in_place_of_an_environment_may_be_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "open_api", lambda _arguments: _Api())
    with pytest.raises(NoSuchName, match="For the release of deployment 13: `pharos rollback --to 13`"):
        deploy._roll_back(build_parser("rollback").parse_args(["rollback", "13"]))


@pytest.mark.parametrize(
    ("name", "title", "joined"),
    [
        ("KeyError", "KeyError: 'cart'", "KeyError: 'cart'"),
        ("KeyError", "KeyError", "KeyError"),
        ("KeyError", "'cart'", "KeyError: 'cart'"),
        ("Key", "Keyboard", "Key: Keyboard"),
        (None, "cart", "cart"),
        ("KeyError", None, "KeyError"),
        (None, None, ""),
    ],
)
def test_a_title_that_begins_with_the_name_does_not_repeat_it(
    name: str | None, title: str | None, joined: str
) -> None:
    assert join_title(name, title, ": ") == joined


def test_deployments_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    deployment = {
        "id": 3,
        "status": "awaiting_approval",
        "project": {"slug": "my-project"},
        "environment": {"slug": "production"},
        "ref": None,
        "revision": None,
        "rolled_back_to_build_id": None,
        "promoted_from_build_id": None,
        "asked_by": {"email": "owner@a-long-domain.example"},
        "created_at": "2026-11-26T03:10:00Z",
        "trigger": "person",
    }
    promoted = {**deployment, "promoted_from_build_id": 2, "revision": "28e7cdcecb63" + "0" * 28}
    show_deployments(argparse.Namespace(), [deployment, promoted])
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.split()[:6] == ["3", "waiting", "my-project/production", "branch", "of", "production"]
    assert "promoted from 2 28e7cdcecb63" in second
