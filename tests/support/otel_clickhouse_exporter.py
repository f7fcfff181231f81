"""The schema of the OpenTelemetry Collector's ClickHouse exporter (Apache-2.0).

It is downloaded once through Go's module proxy into `.engines/`, and not stored in this repository.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.engines import EngineMissing

VERSION = "v0.161.0"
_MODULE = "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/clickhouseexporter"
_FOLDER = Path(__file__).parents[2] / ".engines" / f"otel-clickhouse-exporter-{VERSION}"
_METRICS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
# Names of the exporter's files that differ from the names of the tables.
_SHORT = {"exponential_histogram": "exp_histogram"}


def exporter_templates() -> Path:
    """Return the folder with the exporter's SQL templates. Raises `EngineMissing`."""
    if not (_FOLDER / "done").exists():
        _download()
    return _FOLDER


def exporter_statements(database: str) -> list[str]:
    """Return the exporter's statements that create its tables, on one server and without a TTL."""
    folder = exporter_templates()
    engine = "MergeTree()"

    def fill(name: str, *values: str) -> str:
        parts = re.split(r"%[qs]", (folder / f"{name}.sql").read_text())
        assert len(parts) == len(values) + 1, name
        # `%q` adds quotation marks, which a name does not need.
        return "".join(part + value for part, value in zip(parts, (*values, ""), strict=True))

    logs = (folder / "logs_table.sql").read_text()
    # The branch between `else` and `end` has no full-text index, which few servers support.
    logs = re.sub(r"\{\{- if .*?\{\{- else\}\}(.*?)\{\{- end\}\}", r"\1", logs, flags=re.S)
    for given, value in (
        ("{{ident .Database}}.{{ident .TableName}}", f"{database}.otel_logs"),
        ("{{.ClusterString}}", ""),
        ("{{.Engine}}", engine),
        ("{{.TTL}}", ""),
    ):
        assert given in logs, given
        logs = logs.replace(given, value)
    traces = "otel_traces"
    return [
        logs,
        fill("traces_table", database, traces, "", engine, ""),
        fill("traces_id_ts_lookup_table", database, traces, "", engine, ""),
        fill("traces_id_ts_lookup_mv", database, traces, "", database, traces, database, traces),
        *(
            fill(f"metrics_{_SHORT.get(kind, kind)}_table", database, f"otel_metrics_{kind}", "", engine, "")
            for kind in _METRICS
        ),
    ]


def _download() -> None:
    if shutil.which("go") is None:
        raise EngineMissing("Go is not installed; on Debian: apt-get install golang-go")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    ended = subprocess.run(
        ["go", "mod", "download", "-json", f"{_MODULE}@{VERSION}"],
        cwd=_FOLDER,
        # Run outside of any module. Reading the files does not need the newer Go that the module requires.
        env={**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GO111MODULE": "on"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if ended.returncode:
        raise EngineMissing(
            f"Go cannot download the exporter's schema: {(ended.stdout + ended.stderr)[-300:]}"
        )
    module = Path(json.loads(ended.stdout)["Dir"])
    for file in [*(module / "internal" / "sqltemplates").glob("*_table.sql"), module / "LICENSE"]:
        shutil.copyfile(file, _FOLDER / file.name)
    shutil.copyfile(
        module / "internal" / "sqltemplates" / "traces_id_ts_lookup_mv.sql",
        _FOLDER / "traces_id_ts_lookup_mv.sql",
    )
    (_FOLDER / "done").touch()


if __name__ == "__main__":
    try:
        exporter_templates()
    except EngineMissing as error:
        sys.exit(str(error))
