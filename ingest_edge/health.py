"""`/health/live` and `/health/ready`: whether the process runs, and whether it should receive traffic."""

from collections.abc import Callable, Mapping

import orjson
from aiohttp import web

ReadinessCheck = Callable[[], str | None]
"""Returns why a part is not ready, or None."""


class Readiness:
    """Readiness of the process: false while a part is not ready, and once a shutdown begins, before the port closes."""

    def __init__(self, checks: Mapping[str, ReadinessCheck]) -> None:
        self._checks = dict(checks)
        self.warnings: dict[str, ReadinessCheck] = {}
        """Conditions that an operator should know about, and that do not affect readiness."""
        self.shutting_down = False

    def reasons(self) -> dict[str, str]:
        """Return the parts that are not ready with their reasons; empty when ready."""
        reasons = {name: reason for name, check in self._checks.items() if (reason := check()) is not None}
        if self.shutting_down:
            reasons["process"] = "is shutting down"
        return reasons

    async def live(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond 200 while the event loop runs."""
        return web.json_response({"status": "live"})

    async def ready(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond 200, or 503 with the parts that are not ready."""
        reasons = self.reasons()
        body: dict[str, object] = (
            {"status": "not ready", "reasons": reasons} if reasons else {"status": "ready"}
        )
        if warnings := {name: text for name, check in self.warnings.items() if (text := check()) is not None}:
            body["warnings"] = warnings
        return web.Response(
            status=503 if reasons else 200, body=orjson.dumps(body), content_type="application/json"
        )
