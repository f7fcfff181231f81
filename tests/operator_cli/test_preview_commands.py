"""`pharos preview` on a running `pharos up`."""

import json
import re
from pathlib import Path

from tests.support import deployment_rows
from tests.support.command_deployments import StartCommand, WriteRows, finish_deployment, make_environment
from tests.support.commands import RunCommand, command_runner, expect_refusal, run_json, run_text


def test_previews_are_opened_listed_and_closed(pharos: RunCommand) -> None:
    """On the socket the deployer starts the deployment immediately, and finds no repository."""
    environment_path = make_environment(pharos)
    project = environment_path.partition("/")[0]
    output = run_text(pharos, "preview", "open", "feature/a", "--from", environment_path, "--detach")
    assert re.fullmatch(r"Deployment \d+ is queued; `pharos logs -f \d+` follows it.\n", output)
    (listed,) = run_json(pharos, "preview", "list", "--project", project)
    assert (listed["slug"], listed["branch"], listed["order"]) == ("preview-feature-a", "feature/a", 0)
    assert listed["wake_on_request"] is True
    table = run_text(pharos, "preview", "list", "--project", project)
    assert [line.split()[0] for line in table.splitlines()] == [
        f"{project}/preview-feature-a",
        "address",
        "release",
        "state",
    ]
    assert table.splitlines()[0].endswith("  branch feature/a")
    line = expect_refusal(pharos, "preview", "close", "feature/a", "--project", project)
    assert line == (
        f"Without a terminal, pharos cannot ask whether to close the preview {project}/preview-feature-a of the "
        "branch feature/a and end its processes: add --yes to do it."
    )
    output = run_text(pharos, "preview", "close", f"{project}/preview-feature-a", "--yes")
    assert output == (
        f"The preview {project}/preview-feature-a is closed. Its deployments are still listed.\n"
    )
    output = run_text(pharos, "preview", "list", "--project", project)
    assert output == "No previews. `pharos preview open BRANCH` opens one.\n"


def test_a_preview_gets_no_copy_of_protected_variables(pharos: RunCommand) -> None:
    environment_path = make_environment(pharos)
    project = environment_path.partition("/")[0]
    done = pharos("variables", "set", environment_path, "-", stdin="A=1\nSECRET=hunter2\n")
    assert (done.returncode, done.stderr) == (0, "")
    run_text(pharos, "variables", "protect", environment_path, "SECRET")
    run_text(pharos, "preview", "open", "login", "--project", project, "--from", environment_path, "--detach")
    for path, names in ((f"{project}/preview-login", ["A"]), (environment_path, ["A", "SECRET"])):
        shown = run_json(pharos, "variables", "show", path)["variables"]
        assert [each["name"] for each in shown if each["is_set"]] == names
    run_text(pharos, "preview", "close", "login", "--project", project, "--yes")


def test_impossible_previews_are_refused(pharos: RunCommand) -> None:
    environment_path = make_environment(pharos)
    project = environment_path.partition("/")[0]
    for command, output in (
        (("open", "a..b"), "  branch: must be the name of a branch that Git allows, such as main"),
        (("open", "a", "--from", "nowhere"), "There is no environment 'nowhere' in the project"),
        (
            ("open", "a", "--from", "my-project/production"),
            "  variables_from: must be the ID of an environment",
        ),
        # An environment that is not a preview.
        (("close", environment_path, "--yes"), "There is no preview yet."),
    ):
        done = pharos("preview", *command, "--project", project)
        assert done.returncode != 0 and output in done.stderr, command


def test_an_opened_preview_is_followed(on_engines: RunCommand, write: WriteRows, start: StartCommand) -> None:
    project = make_environment(on_engines).partition("/")[0]
    process = start("preview", "open", "login", "--project", project, "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["text"] == "Queued: login."
    (listed,) = run_json(on_engines, "preview", "list", "--project", project)
    write(lambda session, now: deployment_rows.lease_environment(session, listed["number"], now))
    finish_deployment(write, listed["active_deployment"]["id"])
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["address"] == deployment_rows.ADDRESS
    run_text(on_engines, "preview", "close", "login", "--project", project, "--yes")


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """The arguments are refused before any request."""
    for arguments, output in (
        (("preview",), "the following arguments are required: VERB"),
        (("preview", "open"), "the following arguments are required: BRANCH"),
        (("preview", "close"), "the following arguments are required: PREVIEW"),
    ):
        done = command_runner(tmp_path)(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert output in done.stderr
