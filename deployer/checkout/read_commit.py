"""Reads the subject and the author of a commit."""

import re

from deployer.checkout.failures import CheckOutFailed, explain_failure
from deployer.checkout.fetch_commits import fetched_commits
from deployer.checkout.run_git import Git
from deployer.log_lines.control_characters import remove_controls

_MAX_COMMIT_BYTES = 64 * 1024
_MAX_CHARACTERS = 200
# The encodings that commits use. Some of Python's other codecs take seconds for a text of this size.
_ENCODING = re.compile(
    r"(?:utf-?8|us-ascii|iso-?8859|latin|windows|cp|koi8|gb|big5|euc|shift|sjis)[\w-]*", re.I
)


async def read_commit(
    url: str, revision: str, *, timeout_seconds: float, most_bytes: int, mark: str | None = None
) -> tuple[str, str]:
    """Return the subject and the author of a commit. Fetches only this commit, into a temporary folder.

    `mark`: see `open_git`. Raises `CheckOutFailed`, also if the fetch takes more than `most_bytes` on disk.
    """
    async with fetched_commits(
        url, revision, depth=1, timeout_seconds=timeout_seconds, most_bytes=most_bytes, mark=mark
    ) as git:
        return parse_commit(await _read(git, revision))


async def read_fetched_commit(git: Git, revision: str) -> tuple[str, str] | None:
    """Return the subject and the author of a commit that `git` has fetched, or None if it is too large to be read."""
    try:
        return parse_commit(await _read(git.offline(), revision))
    except CheckOutFailed:
        # A deployment does not fail because its commit cannot be shown.
        return None


async def _read(git: Git, revision: str) -> bytes:
    # Check the size first: git unpacks the whole commit before it prints anything.
    size = int(await git.run_checked("cat-file", "-s", revision))
    if size > _MAX_COMMIT_BYTES:
        raise _too_large(f"{size} bytes")
    read = bytearray()

    def take(data: bytes) -> None:
        read.extend(data)
        # The output may exceed `size`: for a tag, `-s` measures the tag, and `commit` prints the commit.
        if len(read) > _MAX_COMMIT_BYTES:
            raise _too_large(f"more than {_MAX_COMMIT_BYTES} bytes")

    result = await git.run("cat-file", "commit", revision, on_output=take)
    if not result.succeeded:
        raise explain_failure(result.error_lines)
    return bytes(read)


def parse_commit(data: bytes) -> tuple[str, str]:
    """Return the subject and the author's name of a commit object, each as one line of at most 200 characters without
    control characters.

    The object is header lines, an empty line, and the message; the subject is the message's first paragraph
    (git-log(1), `%s`).
    """
    head, _, message = data.partition(b"\n\n")
    headers = dict(reversed([_split_header(line) for line in head.split(b"\n") if not line.startswith(b" ")]))
    named = headers.get(b"encoding", b"").decode("ascii", "replace")
    encoding = named if _ENCODING.fullmatch(named) else "utf-8"
    paragraph = re.split(rb"\n[ \t\r\f\v]*\n", message.lstrip(), maxsplit=1)[0]
    author = headers.get(b"author", b"").partition(b"<")[0]
    return show_on_one_line(_decode(paragraph, encoding)), show_on_one_line(_decode(author, encoding))


def _split_header(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b" ")
    return name, value


def _decode(text: bytes, encoding: str) -> str:
    try:
        return text.decode(encoding, "replace")
    except LookupError:
        return text.decode("utf-8", "replace")


def _too_large(size: str) -> CheckOutFailed:
    return CheckOutFailed(
        f"The commit's message is too large to be shown: the commit has {size}, the limit is {_MAX_COMMIT_BYTES}."
    )


def show_on_one_line(text: str) -> str:
    """Return a text of a commit as one line of at most 200 characters without control characters."""
    one_line = " ".join(remove_controls(text).split())
    return "".join(c for c in one_line if c.isprintable())[:_MAX_CHARACTERS]
