"""The address of `/metrics`, including the case that it is in use."""

from contextlib import AsyncExitStack, closing

import aiohttp
import pytest

from ingest_edge.listening import PortInUse, bind, metrics_address
from ingest_edge.metrics import EdgeMetrics, new_registry
from ingest_edge.serve_metrics import serve_metrics
from tests.support.engines import free_port


@pytest.mark.parametrize(
    ("listen", "own_port", "index", "address"),
    [
        (None, 8000, 0, "127.0.0.1:8100"),
        (None, 8000, 2, "127.0.0.1:8102"),
        # The last ports have no port 100 above them.
        (None, 65_500, 0, "127.0.0.1:65400"),
        ("10.0.0.5:9100", 8000, 0, "10.0.0.5:9100"),
        ("[::1]:9100", 8000, 1, "[::1]:9101"),
        ("0.0.0.0:0", 8000, 3, "0.0.0.0:0"),
    ],
)
def test_address_of_metrics(listen: str | None, own_port: int, index: int, address: str) -> None:
    assert metrics_address(listen, own_port, index) == address


async def test_only_a_configured_address_in_use_stops_the_process(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = new_registry()
    registry.register(EdgeMetrics())
    port = free_port()
    with closing(bind("127.0.0.1", 0)) as server:
        monkeypatch.setattr("ingest_edge.listening._METRICS_PORT_OFFSET", port - server.getsockname()[1])
        async with AsyncExitStack() as stack, aiohttp.ClientSession() as session:
            await serve_metrics(stack, None, server, registry)
            async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                assert (answer.status, "pharos_edge" in await answer.text()) == (200, True)
            await serve_metrics(stack, None, server, registry)
            assert f"127.0.0.1:{port}: Address already in use. Set PHAROS_METRICS_LISTEN" in caplog.text
            # Workers that share a port get this too: consumers and control may use the next ports.
            monkeypatch.setattr(
                "ingest_edge.listening._METRICS_PORT_OFFSET", port - 1 - server.getsockname()[1]
            )
            await serve_metrics(stack, None, server, registry, 1)
            assert caplog.text.count(f"127.0.0.1:{port}: Address already in use") == 2
            with pytest.raises(PortInUse, match="PHAROS_METRICS_LISTEN"):
                await serve_metrics(stack, f"127.0.0.1:{port}", server, registry)
            # An address that no interface of this machine has (RFC 5737).
            with pytest.raises(PortInUse, match="192.0.2.1:9100: Cannot assign requested address"):
                await serve_metrics(stack, "192.0.2.1:9100", server, registry)
