"""Writes `docs/reference/settings.md` and `metrics.md` from the modules that declare them, with their comments."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields

from pipeline_contracts import metric_names, settings
from pipeline_contracts.read_settings import describe_settings

_SETTINGS_BEGIN = """\
<!-- Written by `make docs` from `pipeline_contracts/settings.py`. -->
# Settings

After reading this page you know every variable that configures Pharos, its default and its meaning.

```sh
pharos settings            # the same list
```

Pharos reads these variables of its environment when it starts. `NAME_FILE` names a file with the value of `NAME`, for
secrets. [Operation](../operations/operation.md) explains when to change which.
"""
_METRICS_BEGIN = """\
<!-- Written by `make docs` from `pipeline_contracts/metric_names.py`. -->
# Metrics

After reading this page you know every metric that Pharos exports for Prometheus, and what it counts.

```sh
curl -sS http://127.0.0.1:8100/metrics | grep '^# HELP pharos_'
```

Each process serves its own metrics. Counters have the suffix `_total`, histograms `_bucket`, `_sum` and `_count`.
[Operation](../operations/operation.md#what-to-watch) says what to watch, and how Prometheus finds the address.

| metric | meaning |
|---|---|
"""


def write_settings() -> str:
    """Return the page of settings as Markdown, with the groups in which `Settings` declares them."""
    names = [f"{settings.PREFIX}{field.name.upper()}" for field in fields(settings.Settings)]
    groups = _read_groups(inspect.getsource(settings.Settings))
    described = {variable: (default, meaning) for variable, default, meaning in describe_settings()}
    lines = [_SETTINGS_BEGIN]
    for name in names:
        if name in groups:
            lines.append(f"\n## {groups[name]}\n\n| variable | default | meaning |\n|---|---|---|")
        default, meaning = described[name]
        lines.append(f"| `{name}` | {f'`{default}`' if default else ''} | {_cell(meaning)} |")
    return "\n".join(lines) + "\n"


def write_metrics() -> str:
    """Return the page of metrics as Markdown."""
    rows = [f"| `{name}` | {_cell(meaning)} |" for name, meaning in _read_metrics()]
    return _METRICS_BEGIN + "\n".join(rows) + "\n"


def _read_groups(source: str) -> dict[str, str]:
    """Return the comment above a setting, by the variable of the setting."""
    found = re.findall(r"^    # (.+)\n    (\w+):", source, re.MULTILINE)
    return {f"{settings.PREFIX}{name.upper()}": title for title, name in found}


def _read_metrics() -> Iterator[tuple[str, str]]:
    """Yield each metric with the comment above it; metrics without one share that of the metric before."""
    comment: list[str] = []
    is_new = True
    for line in inspect.getsource(metric_names).splitlines():
        text = line.strip()
        if text.startswith("# "):
            comment = [text[2:]] if is_new else [*comment, text[2:]]
            is_new = False
        elif name := re.fullmatch(r'"(pharos_\w+)",', text):
            yield name[1], " ".join(comment)
            is_new = True


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
