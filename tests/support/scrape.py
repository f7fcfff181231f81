"""Checks responses of `/metrics` by the rules of Prometheus' text format and with Prometheus' own parser.

The parser is a Go program that is built once into `.engines/`.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.engines import EngineMissing, skip_if_missing

_SOURCE = Path(__file__).parent / "expfmt"
_ENGINES = Path(__file__).parents[2] / ".engines"
_FILES = ("go.mod", "go.sum", "main.go")
_COMMENT = re.compile(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)')
_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "counter": ("",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("", "_sum", "_count"),
}


def read_scrape(text: str) -> dict[str, int]:
    """Return the number of samples of each metric family.

    Raises `AssertionError` if the text breaks the format: a family in several places, a second HELP or TYPE, a sample
    twice or without its TYPE.
    """
    assert text.endswith("\n")
    samples: dict[str, int] = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    seen: set[str] = set()
    current = ""
    for line in text.splitlines():
        if line.startswith("#"):
            comment = _COMMENT.fullmatch(line)
            assert comment, line
            kind, name, rest = comment.groups()
            if name != current:
                assert name not in helped and name not in kinds, f"{name} is in several places"
                current = name
            if kind == "HELP":
                assert name not in helped, f"a second HELP of {name}"
                helped.add(name)
                continue
            assert name not in kinds, f"a second TYPE of {name}"
            assert rest in _SUFFIXES, line
            kinds[name] = rest
            samples[name] = 0
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample, line
        assert sample[1] in {current + suffix for suffix in _SUFFIXES[kinds[current]]}, line
        name = sample[1] + (sample[2] or "")
        assert name not in seen, f"twice: {name}"
        seen.add(name)
        float(sample[3])
        samples[current] += 1
    assert kinds.keys() == helped
    return samples


def parse_with_expfmt(text: str) -> dict[str, int]:
    """Return the number of metrics of each family by github.com/prometheus/common/expfmt.

    Raises `AssertionError` with the parser's message if it refuses the text, `EngineMissing` without Go.
    """
    done = subprocess.run([_program()], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def check_scrape(text: str) -> dict[str, int]:
    """Return the result of `read_scrape`; Prometheus' parser must find the same families. Skips the test without Go."""
    samples = read_scrape(text)
    with skip_if_missing():
        assert parse_with_expfmt(text).keys() == {name for name, count in samples.items() if count}
    return samples


def _program() -> str:
    content = b"".join((_SOURCE / name).read_bytes() for name in _FILES)
    program = _ENGINES / f"expfmt-{hashlib.sha256(content).hexdigest()[:12]}"
    if not program.exists():
        if shutil.which("go") is None:
            raise EngineMissing("Go 1.24 or newer is not installed: https://go.dev/dl")
        _ENGINES.mkdir(exist_ok=True)
        # Under a temporary name until it is complete: other processes of the run build it too.
        building = program.with_name(f"{program.name}.{os.getpid()}")
        ended = subprocess.run(
            ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(building), "."],
            cwd=_SOURCE,
            env={**os.environ, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        if ended.returncode:
            raise EngineMissing(f"Go cannot build Prometheus' parser: {ended.stderr[-300:]}")
        building.rename(program)
    return str(program)


if __name__ == "__main__":
    try:
        _program()
    except EngineMissing as error:
        sys.exit(str(error))
