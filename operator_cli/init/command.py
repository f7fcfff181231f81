"""The command `pharos init`."""

import argparse
import json
import os
import re
import shlex
import sys
from pathlib import Path

from operator_cli.arguments import complete
from operator_cli.errors import CommandFailed
from operator_cli.init.proposal import Proposal
from operator_cli.init.recognize import recognize
from operator_cli.init.render import render
from operator_cli.init.source_files import SourceFiles
from operator_cli.messages import qualify_commands

FILE = "pharos.yaml"
_HEAD = re.compile(r"ref: refs/heads/(\S+)")


def register_init(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "init",
        help=f"write {FILE} for the application in a folder",
        description=f"Recognize the application in a folder, and write {FILE}: how it is built, released and run. "
        "Recognizes Django, Flask, FastAPI, Rails, Rack, Node, Next.js, Vite, Go, static sites and Procfiles. Runs "
        "nothing and asks no installation.",
    )
    folder = parser.add_argument(
        "folder", nargs="?", default=".", metavar="FOLDER", help="the application's folder (this one)"
    )
    complete(folder, "file")
    parser.add_argument("--yes", action="store_true", help="do not ask first")
    parser.add_argument("--force", action="store_true", help=f"replace {FILE} if there is one")
    parser.add_argument("--print", action="store_true", dest="prints", help="print it, and write nothing")
    parser.add_argument("--json", action="store_true", help="print what was recognized as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    if not folder.is_dir():
        raise CommandFailed(
            f"There is no folder {folder}. Name the folder of the application: `pharos init FOLDER`."
        )
    target = folder / FILE
    if os.path.lexists(target) and not (arguments.force or arguments.prints):
        raise CommandFailed(
            f"{target} exists already: nothing was changed. `--force` replaces it, `--print` shows what would be "
            "written."
        )
    proposal = recognize(folder)
    if proposal is None:
        raise CommandFailed(
            f"No application was recognized in {folder.resolve()}. Write {FILE} by hand: "
            f"docs/reference/applications.md describes it, and `pharos workflow check {FILE}` checks it."
        )
    branch = _read_branch(folder)
    text = render(proposal, branch) if proposal.processes else None
    if text is not None:
        _check(text)
    if arguments.json:
        print(json.dumps(_describe(proposal, text)))
    elif arguments.prints:
        sys.stdout.write(text or "")
    _show_found(arguments, proposal)
    if text is None:
        raise CommandFailed(
            f"How to start the application was not recognized: {FILE} was not written. Follow the notes above, or "
            f"write {FILE} by hand: docs/reference/applications.md describes it."
        )
    if arguments.prints:
        return 0
    if not arguments.yes and not _confirm(target):
        return 1
    _write(target, text)
    if not arguments.json:
        _show_next(folder, branch)
    return 0


def _describe(proposal: Proposal, text: str | None) -> dict[str, object]:
    return {"kind": proposal.kind, "found": proposal.found, "hints": proposal.hints, "workflow": text}


def _check(text: str) -> None:
    """Check the document as `pharos workflow check` does. Raises `CommandFailed`."""
    # Imported here: reading YAML is slow to import.
    from control_domain.documents.faults import DocumentFault
    from control_domain.workflows.read_workflow import read_workflow

    try:
        read_workflow(text)
    except DocumentFault as error:
        raise CommandFailed(
            f"What was recognized is no valid workflow: {error}. {FILE} was not written."
        ) from None


def _read_branch(folder: Path) -> str:
    """Return the branch that is checked out; `main` where that is not known."""
    match = _HEAD.fullmatch(SourceFiles(folder).read(".git/HEAD").strip())
    return "main" if match is None else match[1]


def _show_found(arguments: argparse.Namespace, proposal: Proposal) -> None:
    # With --json and --print, standard output has the result alone.
    out = sys.stderr if arguments.json or arguments.prints else sys.stdout
    if not arguments.json:
        print(f"Found: {proposal.kind} ({', '.join(proposal.found)}).", file=out)
        for name, command in proposal.processes.items():
            print(f"  {name}: {command}", file=out)
        for hint in proposal.hints:
            print(qualify_commands(f"Note: {hint}"), file=out)


def _confirm(target: Path) -> bool:
    """Ask at a terminal whether to write the file. Without a terminal nobody can be asked, and nothing is lost."""
    if sys.stdin is None or not sys.stdin.isatty():
        return True
    print(f"Write {target}? Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("Nothing was written.", file=sys.stderr)
    return False


def _write(target: Path, text: str) -> None:
    try:
        # Never through a link to another place.
        fresh = target.with_name(f".{FILE}.new")
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as file:
            file.write(text)
        os.replace(fresh, target)
    except OSError as error:
        raise CommandFailed(f"{target} cannot be written: {error.strerror}.") from None


def _show_next(folder: Path, branch: str) -> None:
    slug = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")[:40].strip("-") or "app"
    is_here = folder.resolve() == Path.cwd()
    git = "git" if is_here else f"git -C {shlex.quote(str(folder))}"
    path = '"$PWD"' if is_here else shlex.quote(str(folder.resolve()))
    steps = [
        *([] if (folder / ".git").exists() else [f"{git} init --initial-branch={shlex.quote(branch)}"]),
        f'{git} add . && {git} commit -m "Describe how the application runs"',
        f"`pharos project create {slug}",
        f"`pharos environment create production --type production --project {slug}",
        f"`pharos repository connect {path} --branch {shlex.quote(branch)} --project {slug}",
        f"`pharos deploy {slug}/production",
    ]
    print(f"\n{FILE} is written. Next:")
    for step in steps:
        # The mark lets `qualify_commands` find the commands of this program.
        print(f"  {qualify_commands(step).removeprefix('`')}")
