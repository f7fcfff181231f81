"""Build responses to Sentry's SDKs, which pages of any origin may read."""

from collections.abc import Mapping

import orjson
from aiohttp import hdrs, web

from pipeline_contracts.errors import Problem

CORS: Mapping[str, str] = {
    hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
    hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: "X-Sentry-Error, X-Sentry-Rate-Limits, Retry-After",
}
"""Browsers send from the pages of the monitored site. The key alone authorizes the request: cookies are ignored."""
_PREFLIGHT: Mapping[str, str] = {
    **CORS,
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "POST, OPTIONS",
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: (
        "X-Sentry-Auth, Authorization, Content-Type, Content-Encoding, X-Requested-With, sentry-trace, baggage"
    ),
    hdrs.ACCESS_CONTROL_MAX_AGE: "86400",
}


def preflight_response() -> web.Response:
    """Return the response to `OPTIONS`."""
    return web.Response(status=204, headers=_PREFLIGHT)


def accepted_response(event_id: str, headers: Mapping[str, str]) -> web.Response:
    """Return `{"id": …}`; an empty object for an envelope without an event."""
    body = orjson.dumps({"id": event_id} if event_id else {})
    return web.Response(body=body, headers={**headers, **CORS}, content_type="application/json")


def problem_response(_request: web.BaseRequest, problem: Problem) -> web.Response:
    """Return a refusal as Sentry's own servers do: `{"detail": …}`, and the reason in `X-Sentry-Error`.

    An invalid envelope (422) becomes 400. A slow body (408) and an internal error (500) become 503, because a retry may
    succeed.
    """
    status, headers = problem.status, {**problem.headers, **CORS}
    if status in (408, 500):
        status = 503
        headers[hdrs.RETRY_AFTER] = "1"
    elif status == 422:
        status = 400
    if status == 429:
        # Seconds, categories (empty for all), scope, reason. SDKs prefer this header to `Retry-After`.
        headers["X-Sentry-Rate-Limits"] = f"{headers.get(hdrs.RETRY_AFTER, '1')}::organization:rate_limited"
    reason = problem.detail.encode("ascii", "replace").decode()
    headers["X-Sentry-Error"] = reason.replace("\r", " ").replace("\n", " ")[:500]
    body = orjson.dumps({"detail": problem.detail})
    return web.Response(status=status, body=body, headers=headers, content_type="application/json")
