"""Values of bindings and variables of configurations are neither shown nor stored in plain text."""

import base64
import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support import suites
from tests.support.configuration_client import (
    ConfigurationClient,
    create_configured_project,
    write_configuration,
)
from tests.support.platform_process import PlatformProcess, platform_process
from tests.support.refused_configurations import TEMPLATES, bad_requests, bad_values
from tests.support.secret_watch import Needles, find_files_with

_LETTERS = "αβγδεζηθικλμνξοπρστυφχψω漢字仮名交文🗝🔑"


def _core() -> str:
    return secrets.token_hex(16)


_CORES = [_core() for _ in range(8)]
_FOREIGN = "".join(secrets.choice(_LETTERS) for _ in range(24))
_BINDINGS = {
    "plain": _CORES[0],
    "odd": f"{_CORES[1]}'\"$ <&>\\/é%{_CORES[2]}`#: {{}}[]",
    "lines": f"-----BEGIN KEY-----\n{_CORES[3]}\n\t{_CORES[4]}'\"\r\n-----END KEY-----\n",
    "foreign": _FOREIGN,
}
_LITERAL = f"literal-{_CORES[5]}"
_LITERAL_LINES = f"one\n{_CORES[6]}\n"
# Secret in messages about the configuration, but not where the value is set.
_BRANCH, _HOST, _PATH = (_core() for _ in range(3))
_SETTINGS = {"branch": _BRANCH, "host": _HOST, "path": _PATH}
_DOCUMENT = f"""\
version: 2
environments:
  vault:
    type: development
    branch: "features/${{branch}}"
    variables:
      PLAIN: "${{plain}}"
      INSIDE: "postgresql://app:${{plain}}@db.internal/${{odd}}?key=${{foreign}}"
      ODD: "${{odd}}"
      LINES: "${{lines}}"
      FOREIGN: "${{foreign}}"
      LITERAL: {_LITERAL}
      LITERAL_LINES: |
        one
        {_CORES[6]}
sites:
  shop: {{domains: ["https://${{host}}.example"], goals: [{{name: Bought, path: "/${{path}}"}}]}}
"""
_ALL = {**_BINDINGS, **_SETTINGS}


def _variables() -> list[str]:
    """Return the final values of the variables."""
    inside = (
        f"postgresql://app:{_BINDINGS['plain']}@db.internal/{_BINDINGS['odd']}?key={_BINDINGS['foreign']}"
    )
    return [*_BINDINGS.values(), inside, _LITERAL, _LITERAL_LINES]


def _digests() -> list[bytes]:
    """Return digests with which a reader could test guesses."""
    found = []
    for value in [*_variables(), *_CORES]:
        digest = hashlib.sha256(value.encode()).digest()
        encoded = base64.b64encode(digest).rstrip(b"="), base64.urlsafe_b64encode(digest).rstrip(b"=")
        found += [digest, digest.hex().encode(), digest.hex().upper().encode(), *encoded]
    return found


def _pieces(core: str) -> list[str]:
    """Return pieces of a value that a message could show."""
    return [core[at : at + 10] for at in range(0, len(core) - 9, 10)]


def _escaped(text: str) -> list[str]:
    """Return the notations of non-ASCII text in JSON, Python and URLs."""
    return [json.dumps(text)[1:-1], ascii(text)[1:-1], quote(text)]


_IN_FOREIGN = [
    form
    for at in range(0, len(_FOREIGN), 6)
    for form in (_FOREIGN[at : at + 6], *_escaped(_FOREIGN[at : at + 6]))
]
_PARTS = [*_IN_FOREIGN, *(piece for core in _CORES for piece in _pieces(core))]
_SECRETS = Needles(_PARTS, _digests())
_HIDDEN = Needles([*_PARTS, *(piece for core in _SETTINGS.values() for piece in _pieces(core))], _digests())


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformProcess]:
    with platform_process(tmp_path_factory.mktemp("secrets") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def project(platform: PlatformProcess) -> ConfigurationClient:
    """A project to which the document was applied, with other bindings."""
    created = create_configured_project(platform, "Vault")
    created.apply(_DOCUMENT, **{name: f"{value}0" for name, value in _ALL.items()})
    return created


def _check_told(project: ConfigurationClient, known: int = 0) -> None:
    """Assert that no secret was shown since then."""
    assert len(project.outputs) > known
    assert [output for output in project.outputs[known:] if _HIDDEN.are_in(output)] == []


def test_the_search_finds_planted_secrets(tmp_path: Path) -> None:
    for value in _variables():
        for text in (
            value,
            json.dumps(value),
            json.dumps(value, ensure_ascii=False),
            repr(value),
            ascii(value),
        ):
            assert _SECRETS.are_in(f"so: {text}")
        assert _SECRETS.are_in(base64.b64encode(b"key:" + value.encode()))
        assert _SECRETS.are_in(hashlib.sha256(value.encode()).hexdigest())
        (tmp_path / "leak").write_bytes(b"\0" + value.encode())
        assert find_files_with(_SECRETS, tmp_path) == [tmp_path / "leak"]


def test_plans_reviews_and_runs_show_no_secret(project: ConfigurationClient) -> None:
    plan = project.plan(_DOCUMENT, **_ALL)
    output = {change["field"]: change for action in plan["actions"] for change in action["changes"]}
    masked = {"branch", "domains", "goals.Bought", "variables.PLAIN"}
    assert {output[field]["to"] for field in masked} == {"•••"}
    params = {"document": _DOCUMENT, "bindings": _ALL}
    for _ in range(2):
        review = project.configure("POST", "reviews", params, Idempotency_Key="a review")
        assert review.status == 201
    applied = project.configure(
        "POST", f"reviews/{review.json['data']['id']}/apply", Idempotency_Key="applied"
    )
    ended = project.wait_run(applied.json["data"]["id"])
    assert ended["status"] == "succeeded", ended
    assert project.plan(_DOCUMENT, **_ALL)["actions"] == []
    # All values are different now.
    others = {name: f"{value}1" for name, value in _ALL.items()}
    project.apply(_DOCUMENT, **others)
    # One review is never applied.
    assert project.configure("POST", "reviews", params).status == 201
    _check_told(project)


def test_a_failed_retried_and_canceled_step_shows_no_secret(project: ConfigurationClient) -> None:
    known = len(project.outputs)
    project.apply("version: 2\nenvironments: {full: {type: staging}, last: {type: staging, order: 9}}\n")
    (number,) = [
        one["id"]
        for one in project.call("GET", f"projects/{project.project}").json["data"]["environments"]
        if one["slug"] == "full"
    ]
    many = "".join(f"V{count}=x\n" for count in range(1000))
    assert project.call("PUT", f"environments/{number}/variables", {"variables": many}).status == 200
    document = (
        'version: 2\nenvironments: {full: {type: staging, variables: {MORE: "${plain}", LINES: "${lines}"}}, '
        'last: {type: staging, variables: {ODD: "${odd}", FOREIGN: "${foreign}"}}}\n'
    )
    application = project.wait_run(project.start_run(document, **_BINDINGS))
    failed, waiting = application["operations"]
    assert (failed["status"], waiting["status"]) == ("failed", "pending")
    assert "would have 1002 variables" in failed["error"]
    for operation, action, status in (
        (failed, "retry", 200),
        (waiting, "retry", 409),
        (waiting, "cancel", 200),
        (waiting, "cancel", 409),
        (waiting, "retry", 200),
    ):
        answer = project.configure(
            "POST", f"applications/{application['id']}/operations/{operation['id']}/{action}"
        )
        assert answer.status == status, answer.json
        project.wait_run(application["id"])
    _check_told(project, known)


@pytest.mark.longer_in_full
@pytest.mark.parametrize("place", TEMPLATES)
def test_a_document_refused_for_a_bound_value_shows_no_secret(
    request: pytest.FixtureRequest, project: ConfigurationClient, place: str
) -> None:
    """A review reads documents like a plan does, so `make test` covers one value of each position."""
    known = len(project.outputs)
    filled = TEMPLATES[place].replace("%s", '"${bad}"')
    document = f"version: 2\n{filled}\n"
    values = bad_values(_CORES[7], _FOREIGN)
    reviewed = (
        values if suites.is_thorough(request.config) else [values[[*TEMPLATES].index(place) % len(values)]]
    )
    answers = []
    for path, arguments in (("plan", values), ("reviews", reviewed)):
        for value in arguments:
            answer = project.configure("POST", path, {"document": document, "bindings": {"bad": value}})
            assert answer.status in (200, 201, 422), answer.json
            answers.append(answer.status)
    assert 422 in answers
    _check_told(project, known)


@pytest.mark.parametrize("kind", bad_requests(""))
def test_a_refused_request_shows_no_secret(project: ConfigurationClient, kind: str) -> None:
    known = len(project.outputs)
    for path in ("plan", "reviews"):
        answer = project.configure("POST", path, bad_requests(_CORES[0])[kind])
        assert answer.status in (400, 413, 422), answer.json
    _check_told(project, known)


def test_commands_show_no_secret(project: ConfigurationClient, tmp_path: Path) -> None:
    known = len(project.outputs)
    others = {name: f"{value}2" for name, value in _ALL.items()}
    arguments = write_configuration(tmp_path, _DOCUMENT, others)
    of_project = ("--project", project.project)
    assert project.run("config", "plan", *arguments, *of_project).returncode == 2
    assert project.run("config", "plan", *arguments, *of_project, "--json").returncode == 2
    assert project.run("config", "apply", *arguments, *of_project, "--yes").returncode == 0
    assert project.run("config", "plan", *arguments, *of_project).returncode == 0
    for command in (["applications"], ["show", "1"]):
        assert project.run("config", *command).returncode == 0
        project.run_json("config", *command)
    for bad in ("cron: ${plain}", 'cron: "0 3 * * ${odd}"', "period: ${lines}"):
        document = f"version: 2\nenvironments: {{vault: {{heartbeats: {{job: {{{bad}}}}}}}}}\n"
        refused = project.run(
            "config", "plan", *write_configuration(tmp_path, document, _BINDINGS), *of_project
        )
        assert refused.returncode == 1 and refused.stderr
    project.run_json("audit")
    _check_told(project, known)
    # These commands show set values, no matter where they came from.
    known = len(project.outputs)
    assert project.run("config", "export", *of_project).returncode == 0
    assert _BRANCH in project.run_json("config", "export", *of_project)["document"]
    slug = project.run_json("project", "show", project.project)["slug"]
    project.run_json("variables", "show", f"{slug}/vault")
    assert [output for output in project.outputs[known:] if _SECRETS.are_in(output)] == []


def test_no_table_contains_a_secret(project: ConfigurationClient, platform: PlatformProcess) -> None:
    with closing(sqlite3.connect(platform.data / "control.sqlite", timeout=30)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {table: database.execute(f'SELECT * FROM "{table}"').fetchall() for table in tables}
    assert rows["config_reviews"] and rows["config_operations"] and rows["variable_sets"]
    for table, found in rows.items():
        needles = _HIDDEN if table.startswith(("config_", "audit_", "idempotent_")) else _SECRETS
        assert [row for row in found if any(needles.are_in(_bytes(cell)) for cell in row)] == [], table


def _bytes(cell: object) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode()


def test_no_file_contains_a_secret(project: ConfigurationClient, platform: PlatformProcess) -> None:
    # While it runs, with data that is only in the write-ahead log; and after it has ended.
    for _ in range(2):
        assert find_files_with(_SECRETS, platform.data) == []
        assert not _HIDDEN.are_in(platform.log.read_bytes())
        assert platform.stop() == 0
    platform.start()
