"""Writes `docs/reference/cli.md` from the parsers of all commands."""

import argparse
from collections.abc import Iterator

from operator_cli.grammar.build_parser import build_parser
from operator_cli.grammar.command_parser import CommandParser
from operator_cli.grammar.commands import COMMANDS_BY_GROUP

_BEGIN = """\
<!-- Written by `make docs` from the parsers of the commands. -->
# Commands

After reading this page you know every command of `pharos`, its verbs, arguments and flags.

```sh
pharos --help              # all commands
pharos deploy --help       # the arguments of one
```

[The command line](command-line.md) explains logging in, names, output for scripts and exit statuses.

Commands of the API also take `--profile NAME` (an installation of `pharos login`), `--data DIR` (the running
`pharos up` of this folder), `--json`, `-q`/`--quiet` (IDs only) and `--wide`. The tables leave these flags out.
"""
_SHARED = frozenset({"--help", "--version", "--profile", "--json", "--quiet", "--wide"})
_SHARED_DATA = "use the running `pharos up` of this folder"


def write_commands() -> str:
    """Return the page as Markdown."""
    return "\n".join([_BEGIN, *_write_groups()])


def _write_groups() -> Iterator[str]:
    for group, commands in COMMANDS_BY_GROUP.items():
        yield f"## {group[0].upper()}{group[1:]}\n"
        for name in commands:
            yield from _write_parser(_find_parser(name), 3)


def _find_parser(command: str) -> argparse.ArgumentParser:
    verbs = build_parser(command).verbs()
    assert verbs is not None
    return verbs.choices[command]


def _write_parser(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield f"{'#' * level} {parser.prog}\n"
    if parser.description:
        yield f"{_escape(' '.join(parser.description.split()))}\n"
    verbs = parser.verbs() if isinstance(parser, CommandParser) else None
    shown = [action for action in parser._actions if action is not verbs and not _is_shared(action)]
    if verbs is None or shown:
        yield f"```text\n{_write_usage(parser, shown)}\n```\n"
    if shown:
        yield "| argument | meaning |\n|---|---|"
        for action in shown:
            yield f"| {_write_names(action)} | {_write_help(parser, action)} |"
        yield ""
    if verbs is not None:
        for verb in verbs.choices.values():
            yield from _write_parser(verb, level + 1)


def _is_shared(action: argparse.Action) -> bool:
    return action.help in (argparse.SUPPRESS, _SHARED_DATA) or bool(
        _SHARED.intersection(action.option_strings)
    )


def _write_usage(parser: argparse.ArgumentParser, actions: list[argparse.Action]) -> str:
    words = [parser.prog]
    for action in sorted(actions, key=lambda one: not one.option_strings):
        word = _write_value(action)
        if action.option_strings:
            word = f"{action.option_strings[-1]} {word}".rstrip()
        words.append(word if _is_required(action) else f"[{word}]")
    return " ".join(words)


def _is_required(action: argparse.Action) -> bool:
    return action.required if action.option_strings else action.nargs not in ("?", "*")


def _write_value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    names = [str(choice) for choice in action.choices] if action.choices is not None else []
    listed = "|".join(names)
    name = action.metavar if isinstance(action.metavar, str) else listed or action.dest.upper()
    if action.nargs in ("+", "*", argparse.REMAINDER):
        return f"{name} …"
    return name


def _write_names(action: argparse.Action) -> str:
    value = _write_value(action).replace("|", "\\|")
    return (
        ", ".join(f"`{name}{f' {value}' if value else ''}`" for name in action.option_strings) or f"`{value}`"
    )


def _write_help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    values = {**vars(action), "prog": parser.prog}
    return _escape((action.help or "") % values).replace("|", "\\|")


def _escape(text: str) -> str:
    """Return a text in which Markdown shows `<name>` and `*` as they are, outside of backquotes."""
    parts = text.split("`")
    parts[::2] = [part.replace("*", "\\*").replace("<", "\\<").replace("_", "\\_") for part in parts[::2]]
    return "`".join(parts)
