"""The environment variables that the dashboard's pages `/start` and OpenTelemetry show for a language."""

import subprocess
import tempfile
from pathlib import Path

from tests.support.javascript_client import JavascriptClient

_LANGUAGES = (
    Path(__file__).parents[2]
    / "web_dashboard"
    / "source"
    / "src"
    / "pages"
    / "settings"
    / "opentelemetry"
    / "languages.ts"
)
_PRINT = """
import { LANGUAGES, writeVariables } from './languages.js'
const [id, ...values] = process.argv.slice(2)
console.log(writeVariables(LANGUAGES.find((language) => language.id === id), ...values))
"""


def read_start_variables(
    client: JavascriptClient, language: str, base: str, key: str, service: str, environment: str
) -> dict[str, str]:
    """Return the variables that `languages.ts` writes for a language."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "package.json").write_text('{"type": "module"}')
        (Path(folder) / "print.js").write_text(_PRINT)
        compiler = [str(client.modules / ".bin" / "tsc"), str(_LANGUAGES), "--outDir", folder]
        options = ["--noCheck", "--module", "esnext", "--target", "es2022", "--ignoreConfig"]
        subprocess.run([*compiler, *options], check=True, capture_output=True, timeout=120)
        printed = subprocess.run(
            ["node", "print.js", language, base, key, service, environment],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
    lines = printed.splitlines()
    assert all(line.startswith("export ") for line in lines)
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)
