"""The resources and limits that `assemble_control_plane` gives to the application."""

from typing import Any, cast

import pytest

from control_api.limits.report_queue import report_limits
from control_api.limits.request_limits import RequestLimiter, RequestLimits
from control_domain.repositories.local_folders import ANY_FOLDER, NO_FOLDERS, LocalFolders
from pipeline_contracts.settings import BadSettings, Settings
from tests.support.serve_control import VARIABLE_KEYS
from wiring.control_plane import assemble_control_plane


def _assemble(settings: Settings, **given: Any) -> Any:
    """Return the state of the application."""
    nothing = cast(Any, None)
    engines = {"sessions": nothing, "directory": nothing, "store": nothing, "report_store": nothing}
    keys = {"receipt_key": b"key", "sealing_keys": VARIABLE_KEYS}
    return assemble_control_plane(settings, **{**engines, **keys, **given}).app.state


def test_reports_have_their_own_store_and_queue() -> None:
    settings = Settings(max_reports_at_once=3, max_requests_at_once=5, git_app_secret="secret")
    reports, receipts = object(), object()
    state = _assemble(settings, store=receipts, report_store=reports)
    assert state.report_store is reports
    assert state.column_store is receipts
    assert state.report_queue.limits == report_limits(3)
    assert isinstance(state.request_limiter, RequestLimiter)
    assert state.request_limiter._limits == RequestLimits.from_settings(settings)
    assert state.git_app_secret == "secret"


@pytest.mark.parametrize(
    ("setting", "default", "is_allowed"),
    [
        (None, NO_FOLDERS, False),
        (None, ANY_FOLDER, True),
        ("/srv/git, /home/git", NO_FOLDERS, True),
        ("/srv/other", ANY_FOLDER, False),
        ("", ANY_FOLDER, False),
    ],
)
def test_folders_of_repositories(setting: str | None, default: LocalFolders, is_allowed: bool) -> None:
    state = _assemble(Settings(repository_folders=setting), default_folders=default)
    assert state.repository_folders.allow("/home/git/shop.git") is is_allowed


def test_folders_of_repositories_are_absolute() -> None:
    with pytest.raises(BadSettings, match=r"PHAROS_REPOSITORY_FOLDERS: git is not an absolute path"):
        _assemble(Settings(repository_folders="git"))


def test_public_url_must_be_a_url() -> None:
    with pytest.raises(BadSettings, match=r"PHAROS_PUBLIC_URL: must be a URL that starts with https://"):
        _assemble(Settings(public_url="pharos.example"))


def test_output_of_the_deployer_and_public_url() -> None:
    output = object()
    state = _assemble(Settings(public_url="https://pharos.example"), process_output=output)
    assert state.process_output is output
    assert state.public_url == "https://pharos.example"
