"""The private files and the groups of the operator, for commands that run as the same user."""

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

# Folders of sockets that make members of a group root. `group_access.py` hides all of /run.
_GROUP_SOCKET_FOLDERS = ("/var/lib/incus", "/var/lib/lxd", "/var/snap/lxd/common/lxd")


def operator_paths() -> tuple[Path, ...]:
    """Return paths to hide from commands: private files in the operator's homes (of passwd and of HOME), the folder of
    the session's sockets (ssh and GPG agents, the user's systemd), and those of container managers. Empty as root,
    whose commands have users of their own."""
    uid = os.geteuid()
    if uid == 0:
        return ()
    homes = {os.environ.get("HOME", "")}
    with contextlib.suppress(KeyError):
        homes.add(pwd.getpwuid(uid).pw_dir)
    paths = [Path(home, name) for home in sorted(homes) if home.startswith("/") for name in _PRIVATE]
    return (*paths, Path(f"/run/user/{uid}"), *map(Path, _GROUP_SOCKET_FOLDERS))


def operator_groups() -> tuple[int, ...]:
    """Return the supplementary groups of the operator, which commands keep. Empty as root, whose commands have none."""
    return () if os.geteuid() == 0 else tuple(sorted({*os.getgroups()} - {os.getegid()}))
