"""Only the application sees the values of variables, even when a step prints them."""

import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployed_apps import SERVE, shell_app
from tests.support.installation import App, FinishedDeployment, Installation
from tests.support.repositories import Repository
from tests.support.secret_watch import Needles, ProcessWatch, find_files_with, is_open_to_others

_CORES = [secrets.token_hex(16) for _ in range(6)]
_PLAIN = _CORES[0]
_ODD = f"{_CORES[1]}'\"$ <&>\\/é%{_CORES[2]}"
_LINES = f"-----BEGIN KEY-----\n{_CORES[3]}\n{_CORES[4]}'\"\n{_CORES[5]}\n-----END KEY-----\n"
_NEEDLES = Needles(_CORES)

_PRINTING = r"""
echo "plain: $PLAIN"
echo "odd: $ODD"
echo "lines: $LINES" >&2
env
export -p
bash -c 'printf "%q\n" "$PLAIN" "$ODD" "$LINES"; declare -p ODD'
(set -x; : "$PLAIN" "$ODD" "$LINES")
bash -c 'set -x; : "$PLAIN" "$ODD" "$LINES"'
printf %s "$PLAIN" | base64
echo "$ODD" | base64
echo "$LINES" | base64
printf 'user:%s' "$PLAIN" | base64 -w0; echo
printf '%s' "$PLAIN"; sleep 0.1; printf '%s\n' "$PLAIN"
sh -c "false $PLAIN" || echo "failed: false $PLAIN"
sh -c "$PLAIN" || true
python3 printing.py
"""
_PRINTING_IN_PYTHON = """\
import base64, json, os, sys, time, urllib.parse
values = {name: os.environ[name] for name in ("PLAIN", "ODD", "LINES")}
print(values, repr(values["ODD"]), repr(values["LINES"].encode()))
print(json.dumps(values), json.dumps(values, ensure_ascii=False), json.dumps(values, indent=2))
print(urllib.parse.urlencode(values), urllib.parse.quote(values["ODD"]))
print(base64.b64encode(json.dumps({"a": values["PLAIN"]}).encode()).decode())
print(base64.urlsafe_b64encode(values["ODD"].encode()).decode())
sys.stdout.flush()
# In two writes. The second time there is a pause, after which the first half is shown as a line.
for pause in (0.05, 1.6):
    for value in values.values():
        half = len(value) // 2
        for part in (value[:half], value[half:]):
            os.write(1, part.encode())
            time.sleep(pause if value is values["PLAIN"] else 0.05)
        os.write(1, b"\\n")
os.write(2, b"x" * 8180 + values["PLAIN"].encode() * 3 + b"\\n")
raise ValueError(values["ODD"])
"""


@pytest.fixture(scope="module")
def app(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> App:
    created = installation.create_app("Secrets", Repository(tmp_path_factory.mktemp("secrets") / "app.git"))
    quoted = {name: _quote(value) for name, value in (("PLAIN", _PLAIN), ("ODD", _ODD), ("LINES", _LINES))}
    created.set_variables("".join(f"{name}={value}\n" for name, value in quoted.items()))
    return created


@pytest.fixture(scope="module")
def began() -> float:
    return time.time()


@pytest.fixture
def watch(began: float, app: App) -> Iterator[ProcessWatch]:
    with ProcessWatch(app, _NEEDLES) as watching:
        yield watching
    # The number of polls depends on the speed of the machine.
    assert watching.scans
    assert watching.attempted != set(), "no process of the application was seen"
    assert (watching.found, watching.readable) == ([], [])


def _quote(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'


def _bring(app: App, build: str, web: str, release: str = "true") -> FinishedDeployment:
    files = shell_app(web, {"release.sh": release, "printing.py": _PRINTING_IN_PYTHON}, build=build)
    workflow = f"{files['pharos.yaml']}release: {{steps: [sh release.sh]}}\n"
    app.repository.commit({**files, "pharos.yaml": workflow, "site/index.html": "quiet"})
    done = app.deploy_and_wait()
    shown = [text for text in done.texts if _NEEDLES.are_in(text)]
    assert shown == []
    return done


def test_a_build_that_prints_secrets(app: App, watch: ProcessWatch) -> None:
    done = _bring(app, _PRINTING, SERVE)
    assert (done.status, "ended with status 1" in done.last) == ("failed", True), done
    output = "\n".join(done.texts)
    # The text around the secrets is shown, so the steps did print them.
    for expected in ("plain: •••", "odd: •••", "lines: •••", "PLAIN=•••", "failed: false •••"):
        assert expected in output, (expected, output)
    assert output.count("•••") > 40
    assert "ValueError: •••" in output


def test_a_command_that_is_not_found(app: App, watch: ProcessWatch) -> None:
    done = _bring(app, 'sleep 0.3; "$PLAIN" "$ODD"', SERVE)
    assert (done.status, "ended with status 127" in done.last) == ("failed", True), done


def test_a_release_step_and_a_web_process_that_crashes(app: App, watch: ProcessWatch) -> None:
    done = _bring(app, "true", _PRINTING, release=_PRINTING.replace("python3 printing.py", "env"))
    assert (done.status, "web.1 ended with status 1" in done.last) == ("failed", True), done
    assert "Last output of web.1:" in done.texts
    assert any("ValueError: •••" in text for text in done.texts), done


def test_the_api_and_commands_show_no_secret(app: App, watch: ProcessWatch) -> None:
    done = _bring(app, "true", SERVE)
    assert (done.status, app.get()) == ("succeeded", (200, "quiet"))
    installation = app.installation
    for number in range(1, done.number + 1):
        installation.call("GET", f"deployments/{number}")
        installation.call("GET", f"deployments/{number}/log")
    for path in ("deployments", "projects", f"projects/{app.project}"):
        installation.call("GET", path)
    for command in (["variables", "show", app.name], ["environment", "show", app.name], ["ps"], ["audit"]):
        installation.run_json(*command)
    # In JSON notation, and unchanged.
    texts = [*installation.outputs, *map(repr, map(json.loads, filter(_is_json, installation.outputs)))]
    assert [text for text in texts if _NEEDLES.are_in(text)] == []


def _is_json(text: str) -> bool:
    return text.startswith(("{", "["))


def test_no_file_contains_a_secret(app: App, began: float) -> None:
    data = app.installation.platform.data
    found = find_files_with(_NEEDLES, data)
    # Only the output of the crashed process itself.
    assert {path.parent.parent for path in found} == {app.outputs}
    assert [path for path in found if is_open_to_others(path, data)] == []
    # Folders of other tests may be large.
    of_tests = {*Path("/tmp").glob("pharos-test-*"), data}
    elsewhere = [
        *find_files_with(_NEEDLES, Path("/tmp"), began, of_tests),
        *find_files_with(_NEEDLES, data.parent, began, of_tests),
    ]
    assert elsewhere == []
    assert not _NEEDLES.are_in(app.installation.platform.log.read_bytes())


def test_no_table_row_contains_a_secret(app: App) -> None:
    tables = [
        name for (name,) in app.installation.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    assert "deployment_lines" in tables
    for table in tables:
        rows = app.installation.rows(f'SELECT * FROM "{table}"')
        shown = [row for row in rows if any(_NEEDLES.are_in(_bytes(cell)) for cell in row)]
        assert shown == [], table


def _bytes(cell: object) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode()
