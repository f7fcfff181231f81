"""The profiles of `pharos login`: installations with their tokens, in `~/.config/pharos/profiles.json`.

The file holds secrets: only its owner may read it (0600, the folder 0700), and it is replaced as a whole.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from operator_cli.errors import CommandFailed, NoSuchName, UsageError
from operator_cli.suggestions import suggest

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Profile:
    """An installation and the token for it."""

    name: str
    url: str
    """The API root, which ends in `/api`."""
    token: str = field(repr=False)
    account: str | None = None
    """The slug of the token's account; None if the token may not read it."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles by name, and the name of the one that commands use by default."""

    by_name: Mapping[str, Profile]
    current: str | None

    def find(self, name: str) -> Profile:
        """Return the profile. Raises `NoSuchName`."""
        profile = self.by_name.get(name)
        if profile is None:
            raise NoSuchName(
                f"There is no profile {name!r}.{suggest(name, self.by_name)} `pharos profile list` shows all, "
                f"`pharos login URL --profile {name if _NAME.fullmatch(name) else 'NAME'}` makes one."
            )
        return profile

    @property
    def default(self) -> Profile | None:
        """The current profile; None if there is none."""
        return None if self.current is None else self.by_name.get(self.current)

    def with_profile(self, profile: Profile) -> "Profiles":
        """Return the profiles with this one added or replaced, as the current one."""
        return Profiles({**self.by_name, profile.name: profile}, profile.name)

    def without(self, name: str) -> "Profiles":
        """Return the profiles without this one. Without the current one, none is current."""
        kept = {other: profile for other, profile in self.by_name.items() if other != name}
        return Profiles(kept, None if self.current == name else self.current)

    def with_current(self, name: str) -> "Profiles":
        """Return the profiles with this one as the current one. Raises `NoSuchName`."""
        return replace(self, current=self.find(name).name)


def check_profile_name(name: str) -> str:
    """Return the name. Raises `UsageError`."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is not a valid name of a profile: use up to 63 of letters, digits, '.', '_', '-'."
        )
    return name


def profiles_file() -> Path:
    """Return the path of the file: below `XDG_CONFIG_HOME`, by default `~/.config`."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification tells programs to ignore relative paths.
    root = Path(configured) if configured.startswith("/") else Path.home() / ".config"
    return root / "pharos" / "profiles.json"


def read_profiles() -> Profiles:
    """Return the stored profiles, none if there is no file. Raises `CommandFailed` if the file cannot be read."""
    try:
        path = profiles_file()
        content = path.read_text()
    except (FileNotFoundError, NotADirectoryError, RuntimeError):
        # RuntimeError: the user has no home folder, as in some containers.
        return Profiles({}, None)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} cannot be read: {_reason(error)}.") from None
    try:
        document = json.loads(content)
        by_name = {name: _read_profile(name, entry) for name, entry in document["profiles"].items()}
        current = document.get("current")
        if not isinstance(current, str | None):
            raise TypeError
        return Profiles(by_name, current)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise CommandFailed(f"{path} is damaged. Delete it and run `pharos login` again.") from None


def _read_profile(name: str, entry: Mapping[str, Any]) -> Profile:
    account = entry.get("account")
    return Profile(name, str(entry["url"]), str(entry["token"]), None if account is None else str(account))


def write_profiles(profiles: Profiles) -> None:
    """Replace the file. Raises `CommandFailed`."""
    # Imported here: only logging in and out write.
    import tempfile

    document = {
        "current": profiles.current,
        "profiles": {
            name: {"url": profile.url, "token": profile.token, "account": profile.account}
            for name, profile in sorted(profiles.by_name.items())
        },
    }
    try:
        path = profiles_file()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # `mkstemp` makes files of mode 0600.
        descriptor, new = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(json.dumps(document, indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        except BaseException:
            os.unlink(new)
            raise
    except RuntimeError:
        raise CommandFailed(
            "This user has no home folder: set XDG_CONFIG_HOME to a folder of your own."
        ) from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {_reason(error)}.") from None


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text"
