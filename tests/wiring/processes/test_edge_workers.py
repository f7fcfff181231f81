"""The command and environment of edge workers that share a port."""

import pytest

from wiring.processes.edge_workers import _Worker


@pytest.mark.parametrize("listen", [None, "127.0.0.1:9100"])
def test_workers_choose_their_own_metrics_ports(listen: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an address that the operator has set is passed to the workers, because the default may be in use."""
    monkeypatch.delenv("PHAROS_METRICS_LISTEN", raising=False)
    if listen is not None:
        monkeypatch.setenv("PHAROS_METRICS_LISTEN", listen)
    started = {}

    def start(command: list[str], **options: object) -> None:
        started.update(options, command=command)

    monkeypatch.setattr("wiring.processes.edge_workers.subprocess.Popen", start)
    _Worker(2, "127.0.0.1", 8000).keep_running()
    environment = started["env"]
    assert isinstance(environment, dict)
    assert environment.get("PHAROS_METRICS_LISTEN") == listen
    assert started["command"][-2:] == ["--worker", "2"]
