"""Original messages of git and its hosts become explanations that say what to do."""

import pytest

from deployer.checkout.failures import CheckOutFailed, explain_failure

_SSH = [
    "fatal: Could not read from remote repository.",
    "",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
]


@pytest.mark.parametrize(
    ("error_lines", "explanation"),
    [
        (
            ["git@github.com: Permission denied (publickey).", *_SSH],
            "does not let this machine in. Give the machine",
        ),
        (["ERROR: Repository not found.", *_SSH], "There is no repository at this address"),
        (
            ["remote: Repository not found.", "fatal: repository 'https://github.com/a/b.git/' not found"],
            "There is no repository at this address",
        ),
        (
            ["fatal: could not read Username for 'https://github.com': terminal prompts disabled"],
            "does not let this machine in",
        ),
        (
            ["No ED25519 host key is known for x.", "Host key verification failed.", *_SSH],
            "is not the one that",
        ),
        (["ssh: Could not resolve hostname x: Name or service not known", *_SSH], "cannot be reached"),
        (
            ["fatal: unable to access 'https://h/certificate/': Failed to connect to h port 443"],
            "cannot be reached",
        ),
        (["fatal: dumb http transport does not support shallow capabilities"], "smart HTTP"),
        (
            ["error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502"],
            "closed the connection",
        ),
        (["error: cannot run ssh: No such file or directory", "fatal: unable to fork"], "There is no ssh"),
        (["error: file write error: No space left on device"], "has no disk space left"),
        (
            ["fatal: something that nobody foresaw"],
            "could not be read. .* Git says: something that nobody foresaw$",
        ),
        ([], "could not be read"),
    ],
)
def test_messages_of_a_host_are_explained(error_lines: list[str], explanation: str) -> None:
    with pytest.raises(CheckOutFailed, match=explanation):
        raise explain_failure(error_lines)


def test_a_reason_is_short_and_contains_no_password() -> None:
    message = str(explain_failure([f"fatal: unable to access 'https://ada:s3cret@h/': {'x' * 1000}"]))
    assert "s3cret" not in message
    assert "https://h/" in message
    assert len(message) < 400
