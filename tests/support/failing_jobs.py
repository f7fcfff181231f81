"""Commands that fail, with the exit status that a shell reports for each. All tests of programs that run jobs use
them."""

FAILING_JOBS: list[tuple[list[str], int]] = [
    (["sh", "-c", "exit 3"], 3),
    (["sh", "-c", "exit 255"], 255),
    (["sh", "-c", "kill -9 $$"], 137),
    (["sh", "-c", "kill -TERM $$"], 143),
    (["no-such-command"], 127),
    (["/etc/passwd"], 126),
]

UNUSABLE_ADDRESSES = ["http://[bad", "ftp://127.0.0.1", "http://", "127.0.0.1:8000/api"]
UNSENDABLE_ADDRESSES = ["http://127.0.0.1:9/a b", "http://127.0.0.1:port/api"]
