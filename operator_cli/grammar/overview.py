"""The help of `pharos` itself."""

from operator_cli.grammar.commands import COMMANDS, COMMANDS_BY_GROUP

_EXIT_STATUSES = """\
exit status: 0 done, 1 failed, 2 wrong arguments or settings, 3 waits for
approval, 4 not logged in, 5 not found, 130 interrupted by Ctrl-C. The help of
`pharos config` and `pharos run` lists theirs."""


def describe_commands() -> str:
    """Return the commands by group, and the exit statuses."""
    width = max(map(len, COMMANDS))
    lines = [
        "usage: pharos COMMAND … [--flags]",
        "",
        "Deploys applications, receives their telemetry, monitors their jobs and",
        "measures their sites.",
        "`pharos COMMAND --help` shows the verbs or arguments of a command.",
    ]
    for group, commands in COMMANDS_BY_GROUP.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<{width}}  {command.summary}" for name, command in commands.items()]
    return "\n".join([*lines, "", _EXIT_STATUSES, ""])
