"""The exit statuses of `pharos`, and what it prints for each."""

import json
import subprocess
from pathlib import Path

import pytest

from operator_cli.errors import CommandFailed, InstallationUnreachable, NoSuchName, NotLoggedIn, UsageError
from operator_cli.run_command import _failure_status
from tests.support import fork_server
from tests.support.commands import CLEAN_ENVIRONMENT, command_runner, expect_refusal
from tests.support.fake_api import Answer, page, problem, running_fake_api
from tests.support.platform_process import PHAROS


@pytest.mark.parametrize(
    ("error", "status", "status_of_config"),
    [
        (CommandFailed, 1, 1),
        (InstallationUnreachable, 1, 1),
        (UsageError, 2, 64),
        (NotLoggedIn, 4, 1),
        (NoSuchName, 5, 1),
    ],
)
def test_each_failure_has_its_status(error: type[CommandFailed], status: int, status_of_config: int) -> None:
    """A command that uses 2 for a result has one status for all failures except wrong arguments."""
    assert _failure_status(error(""), 2) == status
    assert _failure_status(error(""), 64) == status_of_config


def test_a_command_ends_with_the_status_of_the_answer(tmp_path: Path) -> None:
    with running_fake_api() as server:
        run = command_runner(
            tmp_path, {**CLEAN_ENVIRONMENT, "PHAROS_URL": server.url, "PHAROS_TOKEN": "phr_pat_x"}
        )
        projects = page([{"id": "prj_1", "slug": "shop", "name": "Shop", "environments": []}])
        for answer, status in (
            (Answer(content={"data": {"id": "acc_1", "slug": "acme"}}), 0),
            (problem(409, "conflict", "Not now."), 1),
            (problem(401, "invalid-credential", "Revoked."), 4),
            (problem(404, "not-found", "Nothing here."), 5),
            (problem(404, "not-found", "There is nothing at this address."), 1),
        ):
            server.by_path = {"/api/v1/account": answer, "/api/v1/me": answer}
            done = run("whoami", "--json")
            assert (done.returncode, done.stdout == "") == (status, status != 0)
            assert len(done.stderr.splitlines()) == (status != 0)
        server.by_path = {"/api/v1/projects": projects}
        done = run("open", "shop/production")
        assert (done.returncode, done.stderr) == (
            5,
            "pharos: There is no environment in the project shop yet.\n",
        )
    done = run("whoami")
    assert done.returncode == 1 and "Nothing listens at" in done.stderr
    assert run("whoami", "--nothing").returncode == 2


@pytest.mark.parametrize("rows", [1, 1000])
def test_output_that_cannot_be_written_is_reported(tmp_path: Path, rows: int) -> None:
    """Few rows fail when the output is flushed, many when they are printed."""
    with running_fake_api() as server, open("/dev/full", "w") as full:
        environment = {**CLEAN_ENVIRONMENT, "PHAROS_URL": server.url, "PHAROS_TOKEN": "phr_pat_x"}
        server.by_path = {"/api/v1/projects": page([{"id": "prj_1", "name": "Shop"}] * rows)}
        done = fork_server.run(
            [str(PHAROS), "project", "list", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1,
        "pharos: The output cannot be written: No space left on device. The command may have done what you asked: "
        "check before you repeat it, and replace a secret that it has made.\n",
    )


@pytest.mark.parametrize(("flag", "parameter"), [("--since", "since"), ("--until", "until")])
def test_ages_in_the_audit_log_count_by_the_clock_of_the_installation(
    tmp_path: Path, flag: str, parameter: str
) -> None:
    with running_fake_api() as server:
        run = command_runner(
            tmp_path, {**CLEAN_ENVIRONMENT, "PHAROS_URL": server.url, "PHAROS_TOKEN": "phr_pat_x"}
        )
        server.by_path = {
            "/api/v1/account": Answer(
                content={"data": {}}, headers={"Date": "Fri, 20 Nov 2026 12:00:00 GMT"}
            ),
            "/api/v1/audit": page([]),
        }
        assert run("audit", flag, "2h", "--json").stdout == "[]\n"
    assert f"{parameter}=2026-11-20T10%3A00%3A00%2B00%3A00" in server.requests[-1].path


def test_help_is_a_command_as_well(tmp_path: Path) -> None:
    run = command_runner(tmp_path)
    assert run("help").stdout == run("--help").stdout
    assert run("help", "profile", "list").stdout == run("profile", "list", "--help").stdout


@pytest.mark.parametrize(
    ("processes", "message"),
    [
        (problem(404, "not-found", "There is nothing at this address."), "has no such operation: it runs an"),
        (Answer(content={"data": {"live": None}}), "answered without 'active_deployment'"),
    ],
)
def test_ps_reports_a_server_of_another_version(tmp_path: Path, processes: Answer, message: str) -> None:
    with running_fake_api() as server:
        run = command_runner(
            tmp_path, {**CLEAN_ENVIRONMENT, "PHAROS_URL": server.url, "PHAROS_TOKEN": "phr_pat_x"}
        )
        environment = {"id": "env_1", "slug": "production", "name": "Production"}
        server.by_path = {
            "/api/v1/projects": page(
                [{"id": "prj_1", "slug": "shop", "name": "Shop", "environments": [environment]}]
            ),
            "/api/v1/environments/env_1/processes": processes,
        }
        assert message in expect_refusal(run, "ps")


def test_open_prints_the_address(tmp_path: Path) -> None:
    with running_fake_api() as server:
        run = command_runner(
            tmp_path, {**CLEAN_ENVIRONMENT, "PHAROS_URL": server.url, "PHAROS_TOKEN": "phr_pat_x"}
        )
        environment = {"id": "env_1", "slug": "production", "name": "Production"}
        server.by_path = {
            "/api/v1/projects": page(
                [{"id": "prj_1", "slug": "shop", "name": "Shop", "environments": [environment]}]
            ),
            "/api/v1/environments/env_1/processes": Answer(
                content={"data": {"address": "http://shop.example"}}
            ),
        }
        assert run("open").stdout == "http://shop.example\n"
        assert json.loads(run("open", "production", "--json").stdout)["address"] == "http://shop.example"
        for address in (None, "file:///etc/passwd"):
            server.by_path["/api/v1/environments/env_1/processes"] = Answer(
                content={"data": {"address": address}}
            )
            done = run("open")
            assert (done.returncode, "has no address yet" in done.stderr) == (1, True)
