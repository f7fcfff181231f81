"""Checks blocks that no shell runs: documents by their readers, code by its compiler or parser."""

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from html.parser import HTMLParser

import yaml
from playwright._impl._driver import compute_driver_executable

from control_domain.configurations.documents.read_document import read_configuration
from control_domain.documents.faults import DocumentFault
from control_domain.workflows.read_workflow import read_workflow
from operator_cli.grammar.build_parser import build_parser
from operator_cli.grammar.commands import find_command
from tests.documentation.markdown_blocks import ROOT, SHELL, Block
from tests.documentation.shell_pages import read_commands

_TARGETS = frozenset(
    re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)
_WORKFLOW_KEYS = frozenset({"processes", "build", "release"})
_CONFIGURATION_KEYS = frozenset({"environments", "sites", "notifications", "project", "delete"})
_ENDS = frozenset({";", "&&", "||", "|", "&", "(", ")", "<", ">", ">>", "<<<", ">&"})


def find_fault(block: Block) -> str | None:
    """Return the fault of a block, or None if its language's reader accepts it.

    Shell blocks that a page runs are checked by running them; those that do not run, by their syntax, the arguments of
    each `pharos` command and the targets of `make`.
    """
    if block.language in SHELL:
        return find_shell_fault(block) if block.reason_not_to_run is not None else None
    if block.language not in _CHECKS:
        return f"the language {block.language!r} has no check: use one of {', '.join(sorted(_CHECKS))}"
    try:
        return _CHECKS[block.language](block.text)
    except (ValueError, SyntaxError, yaml.YAMLError) as error:
        return str(error)


def find_shell_fault(block: Block) -> str | None:
    """Return a fault of syntax, of the arguments of a `pharos` command or of a target of `make`; None without one."""
    commands = read_commands(block)
    done = subprocess.run(["bash", "-n"], input=commands, capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    faults = [find_command_fault(words) for words in split_commands(commands)]
    return next((fault for fault in faults if fault), None)


def split_commands(text: str) -> list[list[str]]:
    """Return the words of each simple command of a shell text that calls `pharos` or `make`."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # A quote that ends on another line.
            continue
        current: list[str] = []
        for word in [*words, ";"]:
            if word in _ENDS:
                found.append(current)
                current = []
            else:
                current.append(word)
    return [rest for words in found if (rest := _without_prefix(words))]


def find_command_fault(words: list[str]) -> str | None:
    """Return why `make` has no such target, or why `pharos` refuses the arguments; None if they are valid."""
    name, *arguments = words
    if name == "make":
        targets = [word for word in arguments if not word.startswith("-") and "=" not in word]
        unknown = [target for target in targets if target not in _TARGETS]
        return f"make has no target {', '.join(unknown)}" if unknown else None
    chosen = find_command(arguments[0]) if arguments and not arguments[0].startswith("-") else None
    if arguments and chosen is None and arguments[0] not in ("--help", "--version", "help", "…"):
        return f"pharos has no command {arguments[0]}"
    if chosen is None or "…" in arguments:
        return None
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            build_parser(chosen).parse_args([chosen, *arguments[1:]])
    except SystemExit as end:
        return f"{' '.join(words)}: {errors.getvalue()}" if end.code else None
    return None


def _without_prefix(words: list[str]) -> list[str]:
    """Return a command of `pharos` or `make` without the variables and programs before it; else an empty list."""
    for at, word in enumerate(words):
        if word in ("pharos", ".venv/bin/pharos"):
            return ["pharos", *words[at + 1 :]]
        if word == "make":
            return words[at:]
        if "=" not in word and word not in ("sudo", "exec", "env", "docker", "compose", "control"):
            return []
    return []


def _check_yaml(text: str) -> str | None:
    document = yaml.safe_load(text)
    if not isinstance(document, dict) or "version" not in document:
        return None
    try:
        if _WORKFLOW_KEYS & document.keys():
            read_workflow(text)
        elif _CONFIGURATION_KEYS & document.keys():
            bindings = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "value")
            read_configuration(text, bindings, lambda value: b"0" * 32)
    except DocumentFault as error:
        return "; ".join(f"line {fault.line}: {fault.path}: {fault.message}" for fault in error.faults)
    return None


def _check_json(text: str) -> str | None:
    json.loads(text)
    return None


def _check_python(text: str) -> str | None:
    compile(text, "block", "exec", dont_inherit=True)
    return None


def _check_javascript(text: str) -> str | None:
    return _check_by_program(
        [str(compute_driver_executable()[0]), "--check", "--input-type=module", "-"], text
    )


def _check_toml(text: str) -> str | None:
    tomllib.loads(text)
    return None


def _check_html(text: str) -> str | None:
    HTMLParser().feed(text)
    return None if text.count("<") == text.count(">") else "a tag is not closed"


def _check_go(text: str) -> str | None:
    program = shutil.which("gofmt")
    return _check_by_program([program, "-e"], text) if program else _check_brackets(text)


def _check_brackets(text: str) -> str | None:
    pairs = ("()", "[]", "{}")
    uneven = [pair for pair in pairs if text.count(pair[0]) != text.count(pair[1])]
    return f"uneven brackets: {' '.join(uneven)}" if uneven else None


def _check_nothing(_text: str) -> None:
    return None


def _check_by_program(command: list[str], text: str) -> str | None:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return done.stderr if done.returncode else None


_CHECKS: dict[str, Callable[[str], str | None]] = {
    "yaml": _check_yaml,
    "json": _check_json,
    "python": _check_python,
    "javascript": _check_javascript,
    "js": _check_javascript,
    "toml": _check_toml,
    "html": _check_html,
    "go": _check_go,
    **dict.fromkeys(
        ("nginx", "caddyfile", "ruby", "java", "typescript", "tsx", "jsx", "sql", "php"), _check_brackets
    ),
    # Diagrams, output and plain lists.
    **dict.fromkeys(("text", "dockerfile", "ini", "diff", "http", "crontab"), _check_nothing),
}
