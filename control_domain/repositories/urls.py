"""URLs of Git repositories: which may be cloned, and the kind of their host.

A URL is passed to `git` later, and shown to everybody who may see the project. So it must hold no secret, not look like
a command-line option, and not name a transport that runs a program (`ext::`, gitremote-helpers(7)).
"""

import re
from urllib.parse import SplitResult, urlsplit

from git_hosts.all_hosts import HOSTS

_MAX_LENGTH = 500
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_PLAIN_HOST = re.compile(_HOST)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
# `git@host:path`, as scp writes it.
_SCP = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]*@(?P<host>{_HOST}|\[[0-9A-Fa-f:.]+\]):(?!-|:)[^\s]+")
_KINDS = {domain: host.kind for host in HOSTS.values() for domain in host.domains}
# The hosts serve SSH on port 443 under these names.
_HOST_PREFIXES = ("www.", "ssh.", "altssh.")
# `https://host/owner/name.git`, `ssh://git@host:22/owner/name`, `git@host:owner/name`.
_NAMED = re.compile(r"(?:https|ssh)://[^/]+/+(.+)|[^/:@]+@(?:\[[^\]]+\]|[^/:]+):/*(.+)")

_FORMS = "write it as https://host/path, ssh://git@host/path, git@host:path, or as an absolute path of this machine"


class BadUrl(Exception):
    """The URL cannot be used. The message says why, and repeats no secret."""


def read_url(text: str) -> tuple[str, str | None]:
    """Return the URL, and the kind of its host if it is known. Raises `BadUrl`."""
    url = text.strip()
    if not url or len(url) > _MAX_LENGTH:
        raise BadUrl(f"A repository's address has 1 to {_MAX_LENGTH} characters: {_FORMS}.")
    if not url.isprintable() or "\\" in url:
        raise BadUrl(f"A repository's address has no control characters and no backslashes: {_FORMS}.")
    if url.startswith("/") and url.strip("/"):
        return url, None
    if (copied := _SCP.fullmatch(url)) and "://" not in url:
        return url, _find_kind(copied["host"])
    parts = _split(url)
    # Git accepts schemes in lower case only.
    url = parts.scheme + url[len(parts.scheme) :]
    match parts.scheme:
        case "file":
            _check_file(parts)
            return url, None
        case "https" | "ssh":
            _check_remote(parts)
            return url, _find_kind(parts.hostname or "")
    raise BadUrl(f"Repositories are not supported from {parts.scheme}: {_FORMS}.")


def parse_full_name(url: str) -> str | None:
    """Return `owner/name` in lower case, as the host names the repository in webhooks; None for a local folder. `url`
    is a result of `read_url`."""
    found = _NAMED.fullmatch(url)
    if found is None:
        return None
    name = (found[1] or found[2]).strip("/").removesuffix(".git").lower()
    # Lower case may be longer for some letters: no host allows such names.
    return name if len(name) <= _MAX_LENGTH else None


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        # Raises `ValueError` for an invalid port.
        _ = parts.port
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if not parts.scheme or "://" not in url or " " in url:
        raise BadUrl(f"This is not the address of a repository: {_FORMS}.")
    return parts


def _check_file(parts: SplitResult) -> None:
    if parts.netloc not in ("", "localhost") or not parts.path.strip("/") or parts.query or parts.fragment:
        raise BadUrl("The address of a local folder has no host: write it as file:///srv/shop.git.")


def _check_remote(parts: SplitResult) -> None:
    if parts.password is not None or (parts.scheme == "https" and parts.username is not None):
        raise BadUrl(
            "The address holds a password or a token, which everybody who sees the project would see: leave it out, "
            "and give the machine that deploys a deploy key or a Git credential instead."
        )
    if parts.query or parts.fragment:
        raise BadUrl("A repository's address ends with its path: remove the parts after ? and #.")
    if parts.username is not None and _USER.fullmatch(parts.username) is None:
        raise BadUrl(f"The user in the address has characters that no user has: {_FORMS}.")
    host = parts.hostname or ""
    if _PLAIN_HOST.fullmatch(host) is None and not _is_bracketed(parts):
        raise BadUrl(f"The address names no host: {_FORMS}.")
    if not parts.path.strip("/"):
        raise BadUrl(f"The address names no repository on its host: {_FORMS}.")


def _is_bracketed(parts: SplitResult) -> bool:
    """Return True if the host is an IPv6 address, which `urlsplit` has checked."""
    return re.fullmatch(r"[0-9a-f:.]+", parts.hostname or "") is not None and "[" in parts.netloc


def _find_kind(host: str) -> str | None:
    name = host.lower()
    for prefix in _HOST_PREFIXES:
        name = name.removeprefix(prefix)
    return _KINDS.get(name)
