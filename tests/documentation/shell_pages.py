"""Runs the shell blocks of one page in one shell, in their order, against a running platform."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.documentation.markdown_blocks import ROOT, SHELL, Block

_SECONDS = 120
_SHOWN_CHARACTERS = 3000
_MARK = "\x1eblock "
# `make` must not run: the targets install, run tests and start servers. Their names are checked.
_PRELUDE = r"""
set -eE
# Pages define `pharos` as an alias, which a script would ignore.
shopt -s expand_aliases
make() {
  local word
  for word in "$@"; do
    case $word in -*|*=*) ;; *) grep -qE "^$word:" "$MAKEFILE" || { echo "make: no target $word"; return 2; } ;; esac
  done
}
trap 'status=$?; printf "\nstatus %s of: %s\n" "$status" "$BASH_COMMAND"' ERR
"""


class PageFailure(AssertionError):
    """A block ended with another status than 0, or its output differs from the page."""


def run_page(blocks: list[Block], folder: Path, env: Mapping[str, str], addresses: Mapping[str, str]) -> None:
    """Run the shell blocks of a page in `folder`.

    `addresses` maps addresses in the page to their replacements: `127.0.0.1:8000` to the platform's host and port.
    Raises `PageFailure` with the place of the block, the command and the output.
    """
    steps = [block for block in blocks if block.reason_not_to_run is None]
    script = [_PRELUDE]
    for number, block in enumerate(steps):
        script.append(f"printf '\\n{_MARK}{number}\\n'\n")
        script.append(block.notes.get("before", "") + "\n")
        if "file" in block.notes:
            script.append(_write_file(block))
        elif block.language in SHELL:
            script.append(read_commands(block))
    outputs, status = _run(_replace("".join(script), addresses), folder, env)
    last = max(outputs, default=0)
    if status:
        block = steps[last]
        raise PageFailure(
            f"{block.place}: exit status {status}\n\n{block.text}\n---\n{outputs.get(last, '')}"
        )
    _compare_outputs(steps, outputs, addresses)


def read_commands(block: Block) -> str:
    """Return the commands of a block: the lines after `$ ` in a block of the language `console`, else all."""
    if block.language != "console":
        return block.text
    return "".join(f"{line[2:]}\n" for line in block.text.splitlines() if line.startswith("$ "))


def read_expected(block: Block) -> str:
    """Return the output that a block of the language `console` shows."""
    return "".join(f"{line}\n" for line in block.text.splitlines() if not line.startswith("$ "))


def find_missing_line(expected: str, output: str) -> str | None:
    """Return the first line of `expected` that is not in `output` after the lines before it; None if all are there.

    `…` stands for any text, each number for any number, and spaces for any spaces.
    """
    remaining = [" ".join(line.split()) for line in output.splitlines()]
    for line in filter(str.strip, expected.splitlines()):
        pattern = re.sub(r"\d+", r"\\d+", re.escape(" ".join(line.split())).replace("…", ".*"))
        found = next((at for at, one in enumerate(remaining) if re.search(pattern, one)), None)
        if found is None:
            return line
        remaining = remaining[found + 1 :]
    return None


def _compare_outputs(steps: list[Block], outputs: Mapping[int, str], addresses: Mapping[str, str]) -> None:
    shown = ""
    for number, block in enumerate(steps):
        if block.language in SHELL and "file" not in block.notes:
            shown = outputs.get(number, "")
        expected = read_expected(block) if block.language == "console" else ""
        if "output" in block.notes:
            expected = block.text
        missing = find_missing_line(_replace(expected, addresses), shown)
        if missing is not None:
            raise PageFailure(f"{block.place}: the output has no line like: {missing}\n---\n{shown}")


def _write_file(block: Block) -> str:
    name = shlex.quote(block.notes["file"])
    end = "END-OF-THE-FILE"
    return f"mkdir -p -- \"$(dirname -- {name})\"\ncat > {name} <<'{end}'\n{block.text}{end}\n"


def _replace(text: str, addresses: Mapping[str, str]) -> str:
    for said, used in addresses.items():
        text = text.replace(said, used)
    return text


def _run(script: str, folder: Path, env: Mapping[str, str]) -> tuple[dict[int, str], int]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PHAROS_", "OTEL_"))
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", "")])
    program, output = folder.with_suffix(".sh"), folder.with_suffix(".out")
    program.write_text(script, encoding="utf-8")
    # A file for the output instead of a pipe: a program in the background would keep the pipe open.
    with open(output, "wb") as stdout:
        process = subprocess.Popen(
            ["bash", str(program)],
            cwd=folder,
            env={**inherited, "PATH": path, "MAKEFILE": str(ROOT / "Makefile"), **env},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        finally:
            # This includes programs that the page has started in the background.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    outputs: dict[int, str] = {}
    for part in output.read_text(encoding="utf-8", errors="replace").split(_MARK)[1:]:
        number, _, text = part.partition("\n")
        outputs[int(number)] = text[-_SHOWN_CHARACTERS:]
    return outputs, status
