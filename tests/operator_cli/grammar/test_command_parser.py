"""Wrong arguments get the usage of their sub-command and a suggestion."""

import argparse

import pytest

from operator_cli.grammar.build_parser import build_parser
from operator_cli.grammar.command_parser import CommandParser
from operator_cli.grammar.commands import COMMANDS, find_command


def _fail(capsys: pytest.CaptureFixture[str], command: str | None, *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        build_parser(command).parse_args([*([command] if command else []), *words])
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "words", "usage", "message"),
    [
        (None, ("proj",), "usage: pharos COMMAND", "there is no command 'proj'. Did you mean 'project'"),
        ("profile", ("lst",), "usage: pharos profile", "there is no verb 'lst'. Did you mean 'list'?"),
        ("profile", ("qqq",), "usage: pharos profile", "there is no verb 'qqq'. Choose from: list, use, remove."),
        ("profile", ("list", "--jsn"), "usage: pharos profile list", "arguments: --jsn. Did you mean '--json'?"),
        ("profile", ("list", "x"), "usage: pharos profile list", "unrecognized arguments: x\n"),
        ("whoami", ("--jso",), "usage: pharos whoami", "Did you mean '--json'?"),
        *(
            (None, (word,), "usage: pharos COMMAND", f"there is no command {word!r}. Did you mean {meant}?\n")
            for word, meant in (
                ("version", "'--version'"),
                ("people", "'person'"),
                ("users", "'person'"),
                ("exceptions", "'issues'"),
                ("events", "'tail'"),
                ("invite", "'person invite'"),
                ("secrets", "'variables'"),
                ("env", "'environment'"),
                ("status", "'ps'"),
            )
        ),
        *(
            (noun, (verb,), f"usage: pharos {noun}", f"there is no verb {verb!r}. Did you mean {meant}?\n")
            for noun, verb, meant in (
                ("variables", "get", "'show'"),
                ("variables", "list", "'show'"),
                ("variables", "delete", "'unset'"),
                ("environment", "rename", "'set --name'"),
                ("heartbeat", "delete", "'remove'"),
                ("key", "delete", "'revoke'"),
                ("issues", "close", "'resolve'"),
                ("metrics", "show", "'list'"),
                ("person", "add", "'invite'"),
            )
        ),
        ("approve", ("3",), "usage: pharos approve",
            "say what 3 is the number of: `pharos approve deployment 3` or `pharos approve variables 3`\n"),
        ("completion", ("bsh",), "usage: pharos completion", "invalid choice: 'bsh' (choose from bash, zsh, fish)."),
    ],
)  # fmt: skip
def test_an_error_shows_the_usage_of_the_sub_command_and_a_suggestion(
    capsys: pytest.CaptureFixture[str], command: str | None, words: tuple[str, ...], usage: str, message: str
) -> None:
    status, output = _fail(capsys, command, *words)
    assert status == 2
    assert output.startswith(usage) and message in output


def test_a_noun_without_a_verb_shows_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    status, output = _fail(capsys, "profile")
    assert status == 2
    assert "show the stored profiles" in output
    assert output.endswith("the following arguments are required: VERB\n")


def test_the_default_verb_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    parser = build_parser("traces")
    for words in ((), ("--errors",), ("-n", "5", "--errors")):
        assert parser.parse_args(["traces", *words]) == parser.parse_args(["traces", "list", *words])
    # Another word is a mistyped verb.
    status, output = _fail(capsys, "traces", "shwo")
    assert (status, "there is no verb 'shwo'. Did you mean 'show'?" in output) == (2, True)
    with pytest.raises(SystemExit):
        parser.parse_args(["traces", "--help"])
    assert "show a trace as a tree of its spans" in capsys.readouterr().out


def test_a_command_that_uses_status_2_ends_with_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert _fail(capsys, "config", "plan", "--zz")[0] == 64
    assert _fail(capsys, "config")[0] == 64


def test_flags_may_stand_between_the_values_of_an_argument() -> None:
    parser = CommandParser()
    parser.add_argument("environment")
    parser.add_argument("pairs", nargs="+")
    parser.add_argument("--quiet", action="store_true")
    expected = argparse.Namespace(environment="e", pairs=["A=1", "B=2"], quiet=True)
    for words in ("e A=1 --quiet B=2", "--quiet e A=1 B=2", "e --quiet A=1 B=2", "e A=1 B=2 --quiet"):
        assert parser.parse_args(words.split()) == expected


def test_an_abbreviated_flag_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unrecognized arguments: --prof" in _fail(capsys, "whoami", "--prof=x")[1]


def test_nouns_have_singular_and_plural() -> None:
    spellings = {
        "projects": "project",
        "variable": "variables",
        "repositories": "repository",
        "project": "project",
    }
    assert {word: find_command(word) for word in spellings} == spellings
    assert find_command("projectss") is None
    # A separate command with this name takes precedence.
    assert find_command("heartbeats") == "heartbeats"


def test_a_verb_has_no_other_number(capsys: pytest.CaptureFixture[str]) -> None:
    # `pharos deploys` must not deploy: a list of deployments may be meant.
    suggestions = {
        "deploys": "'deployments' or 'deploy'",
        "rollbacks": "'rollback'",
        "approves": "'approvals' or 'approve'",
        "consumer": "'consumers'",
    }
    for word, suggestion in suggestions.items():
        with pytest.raises(SystemExit) as ended:
            build_parser(find_command(word)).parse_args([word])
        assert ended.value.code == 2
        assert f"there is no command {word!r}. Did you mean {suggestion}?\n" in capsys.readouterr().err


def test_only_nouns_that_change_nothing_alone_have_singular_and_plural() -> None:
    """A new command is listed here if it is a noun: `deploys` and `consumer` change something when they are run."""
    verbs = """init deploy rollback promote ps open login logout cancel approve reject lock unlock run tail send whoami
    usage audit up edge consumers control deployer migrate sign-in-link query doctor completion"""
    assert [name for name, command in COMMANDS.items() if not command.is_noun] == [
        name for name in COMMANDS if name in verbs.split()
    ]
    assert not any(find_command(f"{name}s") for name in verbs.split())
    assert find_command("consumer") is None


def test_the_help_lists_every_command_and_the_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser(None).parse_args(["--help"])
    output = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(f"\n  {name} " in output for name in COMMANDS)
    assert "exit status: 0 done" in output
    assert max(map(len, output.splitlines())) <= 80
    # Its usage is written by hand.
    with pytest.raises(SystemExit):
        build_parser("run").parse_args(["run", "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
