"""The warnings of a deployer at its start, and the settings of its proxy."""

import logging
import socket
from typing import Any

import pytest

from deployer import assemble
from deployer.processes.start_process import MissingConfinement
from pipeline_contracts.read_settings import read_settings


@pytest.mark.parametrize(
    ("missing", "logged"),
    [
        (MissingConfinement(None, None), []),
        (MissingConfinement("no clone", None), ["Linux namespaces are not available"]),
        (MissingConfinement(None, "no seccomp"), ["seccomp filters are not available"]),
        (
            MissingConfinement("no clone", "no seccomp"),
            ["Linux namespaces are not available", "seccomp filters are not available"],
        ),
    ],
)
async def test_each_missing_confinement_is_one_warning_with_its_reason(
    missing: MissingConfinement,
    logged: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def probe() -> MissingConfinement:
        return missing

    monkeypatch.setattr(assemble, "probe_confinement", probe)
    with caplog.at_level(logging.WARNING, logger=assemble.__name__):
        described = await assemble._describe_missing_confinement()
    assert described == ("; ".join(each.getMessage() for each in caplog.records) or None)
    assert [each.getMessage().partition(":")[0] for each in caplog.records] == logged
    reasons = [each for each in (missing.namespaces, missing.filter) if each is not None]
    assert all(reason in caplog.text for reason in reasons)


class _BuiltError(Exception):
    pass


@pytest.mark.parametrize("front", [{}, {"PHAROS_CADDY_ADMIN_URL": "http://127.0.0.1:2019"}])
async def test_the_proxy_verifies_listeners_and_has_the_limits_of_the_settings(
    front: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy_options: dict[str, Any] = {}

    def build(*_: Any, **options: Any) -> None:
        proxy_options.update(options)
        raise _BuiltError

    monkeypatch.setattr(assemble, "StreamingProxy", build)
    # Only the end of a deployer would close a real proxy.
    listeners, limits = object(), object()
    monkeypatch.setattr(assemble.ListenerOwners, "of_this_machine", lambda: listeners)
    monkeypatch.setattr(assemble.CallerLimits, "from_settings", lambda _settings: limits)
    monkeypatch.setattr(assemble, "raise_open_file_limit", lambda: None)
    settings = read_settings({"PHAROS_MAX_APP_REQUESTS": "70", **front}, str)
    nothing: Any = None
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(_BuiltError):
        async with assemble.running_local_deployer(
            settings, nothing, server, sessions=nothing, keys=nothing, registry=nothing, hidden=(), stops=True
        ):
            pass
    assert proxy_options["requests_at_once"] == 70
    assert (proxy_options["listeners"], proxy_options["limits"]) == (listeners, limits)
