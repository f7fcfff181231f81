"""The files of the person who runs Pharos that commands must not read, where both are the same user."""

import contextlib
import os
import pwd
from pathlib import Path

# Keys, tokens and sessions. The rest of the home stays readable, since version managers keep toolchains there.
_PRIVATE = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config",
    ".docker",
    ".kube",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".password-store",
    ".terraform.d",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".local/share/keyrings",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".mozilla",
    ".thunderbird",
    ".pki",
)

# Folders of sockets that a group opens and that make its members root. Those in /run are covered with all of it.
_OF_GROUPS = ("/var/lib/incus", "/var/lib/lxd", "/var/snap/lxd/common/lxd")


def operators_places() -> tuple[Path, ...]:
    """Private files and folders in the operator's homes (of passwd and of HOME), the folder of the session's sockets
    (ssh and GPG agents, the user's systemd), and those of container managers. Empty as root, whose commands have a user
    of their own."""
    uid = os.geteuid()
    if uid == 0:
        return ()
    homes = {os.environ.get("HOME", "")}
    with contextlib.suppress(KeyError):
        homes.add(pwd.getpwuid(uid).pw_dir)
    places = [Path(home, name) for home in sorted(homes) if home.startswith("/") for name in _PRIVATE]
    return (*places, Path(f"/run/user/{uid}"), *map(Path, _OF_GROUPS))


def operators_groups() -> tuple[int, ...]:
    """Return the other groups of the operator, which commands keep. Empty as root, whose commands have none."""
    return () if os.geteuid() == 0 else tuple(sorted({*os.getgroups()} - {os.getegid()}))
