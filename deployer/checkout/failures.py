"""Translates error messages of git into explanations that say what to do."""

import re
from collections.abc import Sequence

_MAX_REASON_CHARACTERS = 200
_QUOTED_TEXT = re.compile("'[^']*'")
_USER_INFO = re.compile(r"(\w://)[^/@\s]*@")

_COMMIT_REFUSED = r"not our ref|unadvertised object|couldn't find remote ref|no such remote ref"
_CHECK_ADDRESS = "Check the repository's address, and that this machine reaches its host."

# Messages of git, ssh and curl (with LC_ALL=C), and their explanations. The first match counts, because ssh and git
# print "could not read from remote repository" after the cause.
_EXPLANATIONS: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern, re.IGNORECASE), meaning)
    for pattern, meaning in (
        ("cannot run ssh", "There is no ssh on this machine. Install it, or use an address with https://."),
        (
            "dubious ownership",
            "The repository on this machine belongs to another user, and git reads only what its own user owns. Give "
            "it to the user that Pharos runs as, or have that user run `git config --global --add safe.directory` "
            "with its path.",
        ),
        (
            "host key verification failed|remote host identification has changed",
            "The repository's host is not the one that this machine knows by that name. If its key was changed on "
            "purpose, remove the old one with `ssh-keygen -R` and its name.",
        ),
        (
            r"permission denied \(|authentication failed|could not read (?:username|password)|terminal prompts disabled"
            r"|returned error: 40[13]|access denied|too many authentication failures|no supported authentication",
            "The repository's host does not let this machine in. Give the machine that deploys a deploy key or a Git "
            "credential that may read the repository.",
        ),
        (
            r"repository '' not found|repository not found|does not appear to be a git repository|returned error: 404"
            "|project you were looking for could not be found|does not exist|no such file or directory"
            "|not a git repository",
            "There is no repository at this address, or this machine may not see it. Check the address; if it is "
            "right, give the machine that deploys a deploy key or a Git credential that may read the repository.",
        ),
        (
            "certificate|ssl peer|tls handshake|gnutls_handshake",
            "The certificate of the repository's host cannot be verified. Have this machine trust who signed it: "
            "`git config --global http.sslCAInfo` names a file with it.",
        ),
        (
            "does not support shallow|shallow capabilities",
            "The repository's host cannot give one revision without its history. Turn on Git's smart HTTP protocol "
            "there, or use another address of the repository.",
        ),
        (
            "transport '' not allowed|protocol '?'? ?.*not (?:supported|allowed)|unable to find remote helper",
            "Repositories can be fetched only over https and ssh, and from this machine. Use such an address, and "
            "check this machine's Git configuration for an `insteadOf`.",
        ),
        (
            "no space left|disk quota exceeded",
            "This machine has no disk space left for the repository. Free some, and deploy again.",
        ),
        (
            r"fsck error|object \w+: |bad object|is corrupt|inflate: data stream error|invalid index-pack"
            "|invalid object",
            "The repository has objects that are damaged or made to do harm. Run `git fsck` on it.",
        ),
        (
            "could not resolve|failed to connect|connect to host|connection (?:refused|timed out|reset|closed)"
            "|no route to host|network is unreachable|operation (?:timed out|too slow)|couldn't connect",
            f"The repository's host cannot be reached. {_CHECK_ADDRESS}",
        ),
        (
            "early eof|hung up|rpc failed|unexpected disconnect|returned error: 5|empty reply|kex_exchange",
            "The repository's host closed the connection. Deploy again; if this persists, check the state of the host.",
        ),
    )
]
_COMMIT_REFUSED_PATTERN = re.compile(_COMMIT_REFUSED, re.IGNORECASE)


class CheckOutFailed(Exception):
    """A revision could not be checked out; the message says what to do, and contains no credentials."""


def explain_failure(error_lines: Sequence[str]) -> CheckOutFailed:
    """Return the failure that the last lines of git's error output describe. Its reason is the line that names the
    cause."""
    for pattern, meaning in _EXPLANATIONS:
        for line in error_lines:
            # The address of a repository, which git quotes in its messages, may contain any of these words.
            if pattern.search(_QUOTED_TEXT.sub("''", line)):
                return CheckOutFailed(_with_reason(meaning, line))
    last = next((line for line in reversed(error_lines) if line.startswith(("fatal: ", "error: "))), "")
    return CheckOutFailed(
        _with_reason(f"The repository could not be read. {_CHECK_ADDRESS}", last or "".join(error_lines[-1:]))
    )


def is_commit_refused(error_lines: Sequence[str]) -> bool:
    """Return True if the host has no such commit or ref, or serves only the tips of its branches and tags."""
    return any(_COMMIT_REFUSED_PATTERN.search(line) for line in error_lines)


def ref_not_found(ref: str) -> CheckOutFailed:
    return CheckOutFailed(f"There is no branch, tag or commit {ref!r} in the repository.")


def shorten(text: str) -> str:
    """Return text for an error message: without the credentials in URLs, and at most 200 characters long."""
    bare = _USER_INFO.sub(r"\1", text)
    return bare if len(bare) <= _MAX_REASON_CHARACTERS else bare[: _MAX_REASON_CHARACTERS - 1] + "…"


def _with_reason(meaning: str, line: str) -> str:
    reason = re.sub(r"^(?:(?:fatal|error|ERROR|remote): *)+", "", line).strip()
    return f"{meaning} Git says: {shorten(reason)}" if reason else meaning
