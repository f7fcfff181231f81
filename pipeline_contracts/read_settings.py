"""Read the settings of a process from its `PHAROS_*` variables.

An unknown or invalid variable stops the start with an error that names it: a typing error must not silently become a
default. A secret may come from a file instead: `PHAROS_RECEIPT_KEY_FILE=/run/secrets/receipt_key`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, get_args

from pipeline_contracts.settings import PREFIX, BadSettings, Settings

# Variables of the test suite, of commands (`pharos run`, the API client), of client libraries and of deployed
# applications: a server may run in the same environment.
_RESERVED = (
    "PHAROS_TEST_",
    "PHAROS_HEARTBEAT_KEY",
    # Of the client libraries.
    "PHAROS_ENVIRONMENT",
    "PHAROS_INGEST_KEY",
    "PHAROS_PING_URL",
    "PHAROS_QUEUES",
    "PHAROS_RELEASE",
    "PHAROS_URL",
    "PHAROS_TOKEN",
    "PHAROS_PROFILE",
    "PHAROS_DEFAULT_ENVIRONMENT",
    "PHAROS_INSTANCE",
)

# Removed settings are ignored: an upgrade must not stop an installation that still sets them.
_REMOVED = ("PHAROS_MAX_JSON_DEPTH",)

_ADDRESS = re.compile(r"[^\s:]+:\d{1,5}|\[[0-9a-fA-F:.]+\]:\d{1,5}")


def read_settings(environment: Mapping[str, str], read_file: Callable[[str], str]) -> Settings:
    """Return the settings that the variables of a process set; the others have their defaults.

    `read_file` returns the text of the file that a `…_FILE` variable names. Raises `BadSettings` that names every
    invalid variable, and never contains the value of a secret.
    """
    known = {PREFIX + f.name.upper(): f for f in fields(Settings)}
    values: dict[str, Any] = {}
    faults: list[str] = []
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable.startswith(_RESERVED) or variable in _REMOVED:
            continue
        setting = known.get(variable)
        if setting is None and variable.endswith("_FILE"):
            setting = known.get(variable.removesuffix("_FILE"))
            if setting is None or not setting.metadata["secret"]:
                faults.append(f"{variable}: unknown setting")
                continue
            try:
                text = read_file(text).strip()
            except (OSError, UnicodeDecodeError) as error:
                faults.append(f"{variable}: the file cannot be read ({type(error).__name__})")
                continue
        if setting is None:
            faults.append(f"{variable}: unknown setting")
        elif setting.name in values:
            faults.append(f"{variable}: given twice, as a value and as a file")
        else:
            try:
                values[setting.name] = _parse(setting, text)
            except ValueError as error:
                faults.append(f"{variable}: {error}")
    if faults:
        raise BadSettings("\n".join([*faults, "`pharos settings` lists all settings."]))
    return Settings(**values)


def _is_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None and int(text.rpartition(":")[2]) < 2**16


def _parse(setting: Field[Any], text: str) -> Any:
    types = get_args(setting.type) or (setting.type,)
    value: Any
    if bool in types:
        if text not in ("0", "1"):
            raise ValueError(f"{text!r} is neither 1 nor 0")
        value = text == "1"
    elif int in types:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
    elif float in types:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number") from None
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{text!r} is not a number")
    else:
        value = text
    minimum = setting.metadata["minimum"]
    if minimum is not None and value < minimum:
        raise ValueError(f"{text} is below the least, {minimum:g}")
    choices = setting.metadata["choices"]
    if choices and value not in choices:
        raise ValueError(f"{text!r} is none of {', '.join(choices)}")
    if setting.metadata["is_address"] and not _is_address(value):
        raise ValueError(f"{text!r} is not host:port, like 127.0.0.1:9100")
    if setting.metadata["secret"] and len(value) < setting.metadata["shortest"]:
        raise ValueError(f"it needs {setting.metadata['shortest']} characters or more")
    return value


def describe_settings() -> list[tuple[str, str, str]]:
    """Return (variable, default, meaning) of every setting, in the order of the class."""
    rows = []
    for f in fields(Settings):
        default = "" if f.default is None or f.default is MISSING else f"{f.default}"
        if isinstance(f.default, bool):
            default = str(int(f.default))
        rows.append((PREFIX + f.name.upper(), default, str(f.metadata["meaning"])))
    return rows
