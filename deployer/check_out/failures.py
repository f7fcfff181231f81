"""Why a revision could not be checked out: what git says on failure, as sentences that say what to do."""

import re
from collections.abc import Sequence

_LONGEST_REASON = 200
_QUOTED = re.compile("'[^']*'")
_USER_INFO = re.compile(r"(\w://)[^/@\s]*@")

_NO_COMMIT = r"not our ref|unadvertised object|couldn't find remote ref|no such remote ref"
_IN_A_WAY = "Check the repository's address, and that this machine reaches its host."

# What git, ssh and curl say (with LC_ALL=C), and what it means. The first that is found counts: ssh and git add to a
# cause that they "could not read from remote repository".
_MEANINGS: Sequence[tuple[re.Pattern[str], str]] = [
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
            "Repositories are taken over https and ssh, and from this machine alone. Use such an address, and look "
            "for an `insteadOf` in this machine's Git configuration.",
        ),
        (
            "no space left|disk quota exceeded",
            "This machine has no room for the repository. Make some, and deploy again.",
        ),
        (
            r"fsck error|object \w+: |bad object|is corrupt|inflate: data stream error|invalid index-pack"
            "|invalid object",
            "The repository has objects that are damaged or made to do harm. Run `git fsck` on it.",
        ),
        (
            "could not resolve|failed to connect|connect to host|connection (?:refused|timed out|reset|closed)"
            "|no route to host|network is unreachable|operation (?:timed out|too slow)|couldn't connect",
            f"The repository's host cannot be reached. {_IN_A_WAY}",
        ),
        (
            "early eof|hung up|rpc failed|unexpected disconnect|returned error: 5|empty reply|kex_exchange",
            "The repository's host broke off. Deploy again; if this stays, look at how the host is.",
        ),
    )
]
_REFUSED_COMMIT = re.compile(_NO_COMMIT, re.IGNORECASE)


class CheckOutFailed(Exception):
    """A revision could not be brought into its folder; the message says what to do, and holds no credentials."""


def explain_failure(said: Sequence[str]) -> CheckOutFailed:
    """What git meant by these lines, the last that it said; the one that tells is kept as the reason."""
    for pattern, meaning in _MEANINGS:
        for line in said:
            # A repository's address may have any of these words in it.
            if pattern.search(_QUOTED.sub("''", line)):
                return CheckOutFailed(_with_reason(meaning, line))
    last = next((line for line in reversed(said) if line.startswith(("fatal: ", "error: "))), "")
    return CheckOutFailed(
        _with_reason(f"The repository could not be read. {_IN_A_WAY}", last or "".join(said[-1:]))
    )


def is_commit_refused(said: Sequence[str]) -> bool:
    """Whether the host has no such commit or ref, or gives only the ends of its branches and tags."""
    return any(_REFUSED_COMMIT.search(line) for line in said)


def missing_ref(ref: str) -> CheckOutFailed:
    """The failure where the repository has nothing of this name."""
    return CheckOutFailed(f"There is no branch, tag or commit {ref!r} in the repository.")


def shorten(text: str) -> str:
    """Text of a repository or of git for a sentence: without users and passwords of addresses, and not long."""
    bare = _USER_INFO.sub(r"\1", text)
    return bare if len(bare) <= _LONGEST_REASON else bare[: _LONGEST_REASON - 1] + "…"


def _with_reason(meaning: str, line: str) -> str:
    reason = re.sub(r"^(?:(?:fatal|error|ERROR|remote): *)+", "", line).strip()
    return f"{meaning} Git says: {shorten(reason)}" if reason else meaning
