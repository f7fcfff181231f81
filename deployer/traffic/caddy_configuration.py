"""The server that Pharos keeps in a Caddy's configuration, as JSON. Pure.

It names the hosts, for which Caddy gets certificates, and sends everything to the embedded proxy, which knows the
routes: so a switch changes nothing in it.
"""

from collections.abc import Iterable
from typing import Any

from deployer.traffic.interface import Target
from deployer.traffic.proxy.origin_claims import NAMES, PREFIXES

SERVER = "pharos_apps"
STREAM_CLOSE_DELAY = "stream_close_delay"

_SECOND = 1_000_000_000
_HTTPS_PORT = 443
# Not -1, which flushes at once: up to 2.7 it also ties each request to the configuration, and the next one cuts it
# off. Events and bodies of unknown length are flushed at once anyway.
_FLUSH_NANOSECONDS = 10_000_000
# Shorter than the proxy's own, so that it does not close a connection just when it is used again.
_IDLE_SECONDS = 30
# How long WebSockets outlive a configuration, which changes when an environment appears.
_STREAM_CLOSE_SECONDS = 24 * 3600
# As the embedded proxy: what callers claim of themselves is taken away, before Caddy sets X-Forwarded-* itself. The
# proxy drops spellings with underscores.
_CLAIMED = [*NAMES, *(f"{prefix}*" for prefix in PREFIXES)]


def build_server(
    hosts: Iterable[str], *, listen: str, waiting: Target, keeps_streams: bool
) -> dict[str, Any]:
    """The value of `apps.http.servers.pharos_apps`, with certificates where it listens on 443.

    `waiting`: where the embedded proxy listens. `keeps_streams`: whether this Caddy knows `stream_close_delay`, which
    is of 2.7.
    """
    proxy: dict[str, Any] = {
        "handler": "reverse_proxy",
        "upstreams": [{"dial": _dial(waiting)}],
        "flush_interval": _FLUSH_NANOSECONDS,
        "transport": {
            "protocol": "http",
            "keep_alive": {"idle_timeout": _IDLE_SECONDS * _SECOND},
            "compression": False,
        },
    }
    if keeps_streams:
        proxy[STREAM_CLOSE_DELAY] = _STREAM_CLOSE_SECONDS * _SECOND
    unclaimed = {"handler": "headers", "request": {"delete": _CLAIMED}}
    return {
        "listen": [listen],
        "automatic_https": {"disable": listen.rpartition(":")[2] != str(_HTTPS_PORT)},
        # The first one does nothing but name. Whatever else comes is for the proxy to answer as well.
        "routes": [{"match": [{"host": sorted(hosts)}]}, {"handle": [unclaimed, proxy]}],
    }


def _dial(target: Target) -> str:
    return f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
