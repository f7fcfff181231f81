"""Operator's commands on a database that they cannot use print no SQL, whose values are secrets."""

from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, TimeoutError

from tests.support.commands import CLEAN_ENVIRONMENT, command_runner, expect_refusal
from tests.support.databases import empty_database
from wiring.database_errors import describe_database_error

_CREATE = ("account", "create", "Beta", "--owner-name", "Ada", "--owner-email", "ada@b.example")


async def test_a_database_without_tables(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    async with empty_database("postgres", request, tmp_path) as url:
        run = command_runner(tmp_path, {**CLEAN_ENVIRONMENT, "PHAROS_DATABASE_URL": url})
        for command in (("account", "list"), _CREATE):
            assert expect_refusal(run, *command) == (
                "The database has no tables of this version: run `pharos migrate`, or correct PHAROS_DATABASE_URL."
            )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            DBAPIError("INSERT INTO api_tokens", ("digest",), ValueError("value too long\nDETAIL: digest")),
            "The database refused a statement (value too long).",
        ),
        (
            TimeoutError("QueuePool limit reached, connection timed out", code="3o7r"),
            "The database cannot be used (QueuePool limit reached, connection timed out).",
        ),
    ],
)
def test_an_error_is_described_without_its_statement(error: SQLAlchemyError, message: str) -> None:
    assert describe_database_error(error) == message
