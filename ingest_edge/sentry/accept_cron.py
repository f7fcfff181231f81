"""Accept Sentry's cron URLs: from the request to a durable 200.

The key is a part of the URL, so no path may appear in a log or a response. Like pings, check-ins take no tokens of the
account's ingest rate.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import hdrs, web

from ingest_edge.accept_monitors import BODY_SECONDS
from ingest_edge.authenticate import authenticate
from ingest_edge.intake import Intake, now_ms
from ingest_edge.limits import Limits
from ingest_edge.sentry.answers import accepted_response
from ingest_edge.sentry.check_ins import make_signal, read_check_in
from ingest_edge.sentry.dsn_key import find_key
from ingest_edge.sentry.envelope import read_json
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import InvalidCredential, MethodNotAllowed, NotFound
from storage_backends.key_directory.interface import KeyEntry

CRON = "/api/{project}/cron"
CRON_PATHS = re.compile(r"/api/[0-9]{1,20}/cron/([^/]{1,100})(?:/([^/]{1,100}))?/?")
CRON_ALLOW = "GET, POST"
_BODY_BYTES = 16 * 1024


@dataclass(slots=True)
class AcceptCron:
    """The handler of `GET` and `POST /api/{number}/cron/{slug}/{key}/?status=…`."""

    intake: Intake
    _limits: Limits = field(init=False)

    def __post_init__(self) -> None:
        limits = self.intake.limits
        self._limits = replace(
            limits,
            body_bytes=_BODY_BYTES,
            decompressed_bytes=_BODY_BYTES,
            body_timeout=min(limits.body_timeout, BODY_SECONDS),
        )

    async def accept(self, request: web.BaseRequest) -> web.StreamResponse:
        """Append the signal of one check-in to the log."""
        received_ms = now_ms()
        if request.method not in ("GET", "POST"):
            raise MethodNotAllowed("A cron URL takes GET and POST.", headers={hdrs.ALLOW: CRON_ALLOW})
        match = CRON_PATHS.fullmatch(request.path)
        slug, secret = match.groups() if match else ("", None)
        secret = secret or find_key(request)
        if secret is None:
            raise InvalidCredential("A cron URL is …/api/1/cron/NAME/INGEST_KEY/?status=ok.")
        intake = self.intake
        key = await authenticate(f"Bearer {secret}", CredentialKind.INGEST_KEY, intake.directory, received_ms)
        fields = {**await self._read_body(request, key), **request.query, "monitor_slug": slug}
        check_in = read_check_in(fields)
        signal = await make_signal(intake, key, check_in, received_ms)
        if signal is None:
            raise NotFound(
                f"The environment of this key has no heartbeat of the name {slug!r}. "
                "`pharos heartbeat create` creates one."
            )
        await intake.append(*signal)
        intake.metrics.signals_accepted += 1
        return accepted_response("" if check_in.run_id is None else check_in.run_id.hex, {})

    async def _read_body(self, request: web.BaseRequest, key: KeyEntry) -> dict[str, Any]:
        """Return the members of a JSON body, which may contain the status if the query does not."""
        if request.method != "POST":
            return {}
        lease = self.intake.budgets.monitors.lease(key.account_id)
        try:
            body = await self.intake.read(request, self._limits, lease)
            content = read_json(body)
        except (ValueError, RecursionError):
            return {}
        finally:
            lease.release()
        return content if isinstance(content, dict) else {}
