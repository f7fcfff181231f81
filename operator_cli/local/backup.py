"""Command `pharos backup`: backups of the installation of this machine."""

import argparse
from pathlib import Path

from operator_cli.arguments import add_output_arguments, complete
from operator_cli.credentials import add_data_argument

_SUMMARIES = {
    "create": "make a backup, while `pharos up` runs or without it",
    "list": "show the backups in a folder",
    "verify": "test a backup: restore it into a scratch folder, and compare it",
    "restore": "restore a backup into a new data folder",
}
_DESCRIPTIONS = {
    "create": "Everything that was accepted before is in it, once. The backup has the keys that open sealed values and "
    "tokens in plain text: who can read it can read everything. It is complete or not there; Ctrl-C removes it.",
    "list": "The newest first, with their restore tests.",
    "verify": "The files are compared with their checksums, the databases and the column store are opened by the real "
    "engines and compared with what was counted, and all sealed values are opened with the key. Exits with 1 if the "
    "backup did not pass. It needs as much free space next to the backup as the backup has.",
    "restore": "The data folder must be empty, or not be there. Then start `pharos up --data DIR` as the same "
    "user.",
}


def register_backup(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "backup",
        help="make, list, test and restore backups of `pharos up`",
        description="Make, list, test and restore backups of the installation that `pharos up` runs. "
        "PHAROS_BACKUP_HOURS=24 has `pharos up` make one a day. Installations with one process per part: "
        "docs/operations/backups.md.",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    for verb, summary in _SUMMARIES.items():
        description = f"{summary[0].upper()}{summary[1:]}. {_DESCRIPTIONS[verb]}"
        subcommand = verbs.add_parser(verb, help=summary, description=description)
        _add_arguments(subcommand, verb)
        add_output_arguments(subcommand)
        # By name: importing the engines takes a second, which `--help` and completion need not wait for.
        subcommand.set_defaults(run=f"local.run_backup:run_{verb}")


def _add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb in ("verify", "restore"):
        parser.add_argument(
            "name", metavar="NAME", help="the backup: its name as `list` shows it, or its path"
        )
    if verb == "restore":
        parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the new data folder")
    else:
        add_data_argument(parser)
    option = "--to" if verb == "create" else "--from"
    default = "PHAROS_BACKUP_FOLDER, or `backups` in the data folder"
    if verb == "restore":
        default = "PHAROS_BACKUP_FOLDER, or ./.pharos/backups"
    folder = parser.add_argument(
        option, dest="folder", type=Path, metavar="DIR", help=f"folder of the backups ({default})"
    )
    complete(folder, "file")
    if verb == "create":
        parser.add_argument(
            "--without-keys",
            action="store_true",
            help="leave receipt.key and variables.key out; keep them elsewhere",
        )
