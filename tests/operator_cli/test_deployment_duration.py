"""The duration of a deployment in the sentence about its outcome."""

from typing import Any

import pytest

from operator_cli.deployments.follow import _describe_duration

_FINISHED = {"id": 7, "environment_id": "env_1", "finished_at": "2026-11-18T12:00:03.250Z"}


class _Api:
    """An API with one deployment."""

    def __init__(self, decided_at: str | None) -> None:
        self.row = {"id": 7, "created_at": "2026-11-18T12:00:00.000Z", "decided_at": decided_at}

    def get_all(self, *path: str, limit: int) -> list[dict[str, Any]]:
        return [self.row]


@pytest.mark.parametrize(
    ("decided_at", "sentence"),
    # The time spent waiting for a second person does not count.
    [(None, " after 3.2 s"), ("2026-11-18T12:00:01.250Z", " after 2.0 s")],
)
def test_the_duration_begins_with_the_request_or_the_approval(decided_at: str | None, sentence: str) -> None:
    api: Any = _Api(decided_at)
    assert _describe_duration(api, _FINISHED) == sentence


def test_a_deployment_that_is_not_finished_has_no_duration() -> None:
    api: Any = _Api(None)
    assert _describe_duration(api, {**_FINISHED, "finished_at": None}) == ""
