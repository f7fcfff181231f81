"""Apply a configuration document and follow the configuration run until it is finished: `pharos config apply`."""

import argparse
import re
import sys
import time
from contextlib import nullcontext
from typing import Any, Final

from operator_cli.api.client import Api, open_api
from operator_cli.api.default_environment import Effect
from operator_cli.api.names import (
    Project,
    list_projects,
    request_first,
    resolve_environment,
    resolve_project,
)
from operator_cli.api.problems import ApiRefused
from operator_cli.arguments import confirm
from operator_cli.configuration.document_arguments import explaining_faults, read_document_body
from operator_cli.errors import (
    AWAITS_APPROVAL,
    FAILED,
    INTERRUPTED,
    CommandFailed,
    InstallationUnreachable,
    NoSuchName,
    UsageError,
)
from operator_cli.messages import OutageNotice, describe_not_live, print_result, qualify_commands
from operator_cli.terminal_text import sanitize

ConfigurationRun = dict[str, Any]
Plan = dict[str, Any]
Review = dict[str, Any]

_NOT_ALLOWED: Final = "deploy-not-allowed"
_POLL_SECONDS: Final = 0.3
_ENVIRONMENT = re.compile(r"environments(?:\.|\[\")([a-z0-9-]+)(?:\"\])?")
_VARIABLES = ("variables.", "variables[")


def apply_configuration(arguments: argparse.Namespace) -> int:
    """Show the plan, ask, start a configuration run and follow it. Return the exit status.

    The review of a document is created only after the person has agreed. Everybody who may decide in the project can
    apply a review, so a declined plan must not leave one.

    Returns 0 if the run succeeds or nothing changes, 1 if the person refuses, `AWAITS_APPROVAL` if a second person
    has to apply the review. If the run fails, returns 1 with `--json` or `--quiet` and raises `CommandFailed` without.
    """
    return _apply_document(arguments) if arguments.review is None else _apply_review(arguments)


def _apply_document(arguments: argparse.Namespace) -> int:
    if arguments.file is None:
        raise UsageError("Name the document to apply, or a review with --review.")
    body = read_document_body(arguments)
    api = open_api(arguments)
    project = resolve_project(api, arguments.project)
    configuration = ("projects", project.id, "configuration")
    with explaining_faults(arguments.file):
        plan = api.post(*configuration, "plan", body=body)
    if (status := _show_and_ask(arguments, project, plan)) is not None:
        return status
    with explaining_faults(arguments.file):
        review = api.post(*configuration, "reviews", body=body)
    if review["plan"] != plan:
        raise CommandFailed(_describe_other_plan(project, review))
    try:
        run = api.post(*configuration, "reviews", review["id"], "apply")
    except ApiRefused as error:
        if error.slug != _NOT_ALLOWED:
            raise
        return _report_waiting(arguments, project, review, _read_detail(error))
    return follow_run(api, arguments, project, run)


def _apply_review(arguments: argparse.Namespace) -> int:
    api, project, review = _find_review(arguments)
    if (status := _show_and_ask(arguments, project, review["plan"])) is not None:
        return status
    try:
        run = api.post("projects", project.id, "configuration", "reviews", review["id"], "apply")
    except ApiRefused as error:
        if error.slug != _NOT_ALLOWED:
            raise
        raise CommandFailed(_read_detail(error)) from None
    return follow_run(api, arguments, project, run)


def _show_and_ask(arguments: argparse.Namespace, project: Project, plan: Plan) -> int | None:
    """Show the plan and ask whether to apply it. Return None to go on, or else the exit status."""
    is_for_programs = arguments.json or arguments.quiet
    if not (is_for_programs and arguments.yes):
        # Imported here: rich is slow to import, and --json needs none of it.
        from operator_cli.configuration.diff import open_console, show_plan

        show_plan(open_console(stderr=is_for_programs), project.slug, plan)
        sys.stdout.flush()
    if not plan["actions"]:
        if arguments.json:
            print("null")
        return 0
    return None if confirm(arguments, _describe_plan(project, plan["summary"])) else 1


def _read_detail(error: ApiRefused) -> str:
    return sanitize(str(error.document.get("detail")), max_length=2000)


def _describe_other_plan(project: Project, review: Review) -> str:
    """Return what to do about a review whose plan differs from the plan that was shown."""
    return (
        "The project was changed after its plan was shown, so nothing was applied. Plan again: `pharos config apply`. "
        f"Review {review['id']} has the new plan, and can be applied until {_expiry(review)}: "
        f"`{_review_command(project, review)}` shows it and asks."
    )


def _review_command(project: Project, review: Review) -> str:
    return f"pharos config apply --review {review['id']} --project {project.slug}"


def _expiry(review: Review) -> str:
    return f"{review['expires_at'][11:16]} UTC"


def _find_review(arguments: argparse.Namespace) -> tuple[Api, Project, Review]:
    if arguments.file is not None or arguments.bind or arguments.bind_file:
        raise UsageError("--review has the document and its bindings already: leave them out.")
    api, number = open_api(arguments), arguments.review
    found = request_first(
        list_projects(api, arguments.project),
        lambda project: api.get("projects", project.id, "configuration", "reviews", number),
    )
    if found is None:
        raise NoSuchName(f"There is no review {number}; `pharos config apply FILE` makes one.")
    return api, *found


def _describe_plan(project: Project, counts: dict[str, int]) -> str:
    return (
        f"create {counts['create']}, change {counts['update']} and delete {counts['delete']} resources of "
        f"{project.slug}"
    )


def _report_waiting(arguments: argparse.Namespace, project: Project, review: Review, detail: str) -> int:
    """Print the next step for the second person. Return the exit status."""
    advice = (
        f"{detail}\nReview {review['id']} is open until {_expiry(review)}. The second person applies it: "
        f"`{_review_command(project, review)}`."
    )
    print_result(arguments, review, lambda _: print(qualify_commands(advice)))
    return AWAITS_APPROVAL


def follow_run(api: Api, arguments: argparse.Namespace, project: Project, run: ConfigurationRun) -> int:
    """Print each step as it ends, until the run is finished. Return the exit status. Ctrl-C does not end the run."""
    try:
        ended = _follow(api, arguments, project, run)
    except KeyboardInterrupt:
        number = run["id"]
        print(
            qualify_commands(
                f"\nApplication {number} is still in progress: `pharos config show {number}` shows its operations, "
                f"`pharos config cancel {number} OPERATION` cancels one that has not begun."
            ),
            file=sys.stderr,
        )
        return INTERRUPTED
    is_successful: bool = ended["status"] == "succeeded"
    if not (is_successful or arguments.json or arguments.quiet):
        raise CommandFailed(_describe_failure(project, ended))
    print_result(arguments, ended, lambda _: _show_success(api, project, ended))
    return 0 if is_successful else FAILED


def _show_success(api: Api, project: Project, run: ConfigurationRun) -> None:
    print(f"Application {run['id']} has succeeded.")
    _show_changed_variables(api, list_changed_variables(project.slug, run))


def _show_changed_variables(api: Api, environments: list[str]) -> None:
    """Print for each environment how its changed variables become live: by an approval, or with the next deploy."""
    for path in environments:
        details = api.get("environments", resolve_environment(api, path, effect=Effect.READS).id)
        waiting = details["waiting"]["variable_changes"]
        if waiting:
            print(
                qualify_commands(
                    f"{path}: change {waiting[0]} of its variables waits for a second person: `pharos approve "
                    f"variables {waiting[0]}`."
                )
            )
        else:
            print(f"{path}: changed variables. {describe_not_live(path)}")


def list_changed_variables(project: str, run: ConfigurationRun) -> list[str]:
    """Return the environments (`project/environment`) that existed before and whose variables the run changed."""
    return [
        f"{project}/{found[1]}"
        for step in run["operations"]
        if step["action"] == "update"
        and (found := _ENVIRONMENT.fullmatch(step["resource"]))
        and any(change["field"].startswith(_VARIABLES) for change in step["changes"])
    ]


def _follow(
    api: Api, arguments: argparse.Namespace, project: Project, run: ConfigurationRun
) -> ConfigurationRun:
    """Return the finished run."""
    # Imported here: --json needs none of it.
    from operator_cli.configuration.run_screen import RunScreen

    outage = OutageNotice()
    with nullcontext() if arguments.json or arguments.quiet else RunScreen() as screen:
        while True:
            if screen is not None:
                screen.show(run)
            if run["status"] != "running":
                return run
            time.sleep(_POLL_SECONDS)
            try:
                run = api.get("projects", project.id, "configuration", "applications", run["id"])
                outage.end()
            except InstallationUnreachable as error:
                outage.report(error)


def _describe_failure(project: Project, run: ConfigurationRun) -> str:
    """Return what to do about a failed run; the cause is printed with the step."""
    number, steps = run["id"], run["operations"]
    name = f"Application {number} of {project.slug}"
    if run["status"] == "canceled":
        return (
            f"{name} was canceled, at least in part. `pharos config show {number}` lists its operations, `pharos "
            f"config retry {number} OPERATION` runs one after all."
        )
    failed = next(step["id"] for step in steps if step["status"] == "failed")
    count = sum(step["status"] == "pending" for step in steps)
    pending = f", and {count} operation{'s wait' if count > 1 else ' waits'} after it" if count else ""
    return (
        f"{name} has failed{pending}. Fix the cause, then `pharos config retry {number} {failed}` continues it; or "
        "apply the document again."
    )
