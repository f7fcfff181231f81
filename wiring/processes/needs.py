"""What a process cannot do without."""

from pipeline_contracts.settings import PREFIX, BadSettings, Settings


def need(settings: Settings, *names: str) -> tuple[str, ...]:
    """The values of these settings. Raises `BadSettings` that names each one that is not set."""
    values = [getattr(settings, name) for name in names]
    missing = [
        f"{PREFIX}{name.upper()}: needed here"
        for name, value in zip(names, values, strict=True)
        if value is None
    ]
    if missing:
        raise BadSettings("\n".join([*missing, "`pharos settings` lists all settings."]))
    return tuple(values)
