"""Errors for numbers in arguments that do not exist."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from operator_cli.api.problems import ApiRefused
from operator_cli.errors import NoSuchName


@contextmanager
def explaining_deployment(number: int | str) -> Iterator[None]:
    """Raise `NoSuchName` with the next step if the API does not find the deployment."""
    with _explaining(f"There is no deployment {number}; `pharos deployments` shows the newest."):
        yield


@contextmanager
def explaining_change(number: int) -> Iterator[None]:
    """Raise `NoSuchName` with the next step if the API does not find the change of variables."""
    with _explaining(f"There is no change {number} of variables; `pharos approvals` shows those that wait."):
        yield


@contextmanager
def _explaining(message: str) -> Iterator[None]:
    try:
        yield
    except ApiRefused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise NoSuchName(message) from None
