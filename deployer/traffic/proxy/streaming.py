"""The proxy: accepts requests on its sockets, and forwards each to an instance of the environment of its host."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping

from aiohttp import web
from aiohttp.http import HttpVersion11

from deployer.listeners.owners import ListenerOwners
from deployer.traffic.interface import Route, Target
from deployer.traffic.proxy.bounded_server import BoundedServer, CallerLimits
from deployer.traffic.proxy.caller import Caller, CallerDisconnected, RelayedResponse
from deployer.traffic.proxy.connector import Connector
from deployer.traffic.proxy.exchange import Exchange
from deployer.traffic.proxy.frame_scheduler import FrameScheduler
from deployer.traffic.proxy.heads import RequestHead, read_host, write_request_head
from deployer.traffic.proxy.open_streams import OpenStreams
from deployer.traffic.proxy.refusals import NotFound, Unavailable, build_problem_response
from deployer.traffic.proxy.routes import RouteTable
from deployer.traffic.proxy.slots import Slots
from deployer.traffic.proxy.watch import Watch
from pipeline_contracts.errors import Problem

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 75.0
# How many seconds a caller has to read the response if the proxy refuses the request before its body has ended.
_LINGERING_SECONDS = 2.0
_BACKLOG = 1024
_POLL_SECONDS = 0.05
_CUT_SECONDS = 0.1
# aiohttp buffers up to twice this size of a body that is not forwarded, plus one read.
_BODY_BYTES = 16 * 1024
_HOST_CHARACTERS = 255


def _trust_nobody(_peer: str) -> bool:
    return False


class StreamingProxy:
    """A `Traffic` in this process. With `listeners`, it sends nothing to a port that another program has taken.

    `on_request_asleep` is called, with the environment's ID, for a request to a sleeping environment; it must not
    block. `response_timeout_seconds`: how long an application may take from the end of the request to the head of
    its response. `silent_seconds`: how long a caller or an application may send or read nothing in the middle of a
    body. `requests_at_once`: the number of requests, streams and WebSockets, each of which needs two file
    descriptors. `Slots` shares it among environments, with `reserved` for each. `held_at_once`: the number of
    requests of one environment that may be held. `trusts` returns True for the address of a trusted gateway, whose
    X-Forwarded-* headers are kept.
    """

    def __init__(
        self,
        on_request_asleep: Callable[[int], None],
        hold_seconds: float = 30.0,
        *,
        response_timeout_seconds: float = 300.0,
        silent_seconds: float = 120.0,
        requests_at_once: int = 4000,
        reserved: int = 16,
        held_at_once: int = 2000,
        grace_seconds: float = 5.0,
        trusts: Callable[[str], bool] = _trust_nobody,
        listeners: ListenerOwners | None = None,
        limits: CallerLimits | None = None,
    ) -> None:
        self._table = RouteTable()
        self._connector = Connector(self._table, on_request_asleep, hold_seconds, held_at_once, listeners)
        self._hold_seconds = hold_seconds
        self._response_timeout_seconds = response_timeout_seconds
        self._watch = Watch(silent_seconds)
        self._watching: asyncio.Task[None] | None = None
        self._streams = OpenStreams()
        self._scheduler = FrameScheduler()
        self._is_closing = False
        self._slots = Slots(requests_at_once, reserved)
        self._grace_seconds = grace_seconds
        self._trusts = trusts
        self._limits = limits or CallerLimits()
        self._runner: web.ServerRunner | None = None

    async def serve(self, sock: socket.socket) -> None:
        """Start to listen on this bound socket. May be called for several sockets."""
        if self._runner is None:
            # `close` implements the grace period itself, since aiohttp would drop bytes that arrive during its own.
            self._runner = web.ServerRunner(
                self._server(), handle_signals=False, shutdown_timeout=_CUT_SECONDS
            )
            await self._runner.setup()
            self._watching = asyncio.create_task(self._watch.run())
        await web.SockSite(self._runner, sock, backlog=_BACKLOG).start()

    async def close(self) -> None:
        """Accept no more requests. Requests in flight are cut off after `grace_seconds`.

        WebSockets end with 1001, event streams with their last chunk.
        """
        if self._runner is not None:
            self._is_closing = True
            for site in list(self._runner.sites):
                await site.stop()
            await self._finish(self._runner)
            await self._runner.cleanup()
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

    async def _finish(self, runner: web.ServerRunner) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._grace_seconds
        for connection in runner.server.connections if runner.server is not None else ():
            if connection._current_request is None and not connection._messages:
                connection.force_close()
        while True:
            if self._slots.taken <= self._streams.web_sockets or loop.time() >= ends_at:
                break
            await asyncio.sleep(_POLL_SECONDS)
        await self._streams.end_all()

    async def set_routes(self, routes: Mapping[int, Route]) -> None:
        """See `Traffic`."""
        for environment_id in self._table.environment_ids() - routes.keys():
            self._table.remove(environment_id)
        for environment_id, route in routes.items():
            self._table.set(environment_id, route)

    async def set_route(self, environment_id: int, route: Route) -> None:
        """See `Traffic`. Held requests continue at once."""
        self._table.set(environment_id, route)

    async def remove_route(self, environment_id: int) -> None:
        """See `Traffic`. Held requests get 404."""
        self._table.remove(environment_id)

    async def count_in_flight(self, environment_id: int, target: Target) -> int:
        """See `Traffic`. Also works after the route was removed."""
        return self._table.count_in_flight(environment_id, target)

    async def end_streams(self, environment_id: int, target: Target) -> None:
        """See `Traffic`."""
        await self._streams.end(environment_id, target)

    def _server(self) -> web.Server:
        # aiohttp logs each unreadable request with the caller's address, so any caller could fill the log.
        silent_logger = logging.getLogger("deployer.traffic.unreadable")
        silent_logger.setLevel(logging.CRITICAL)
        return BoundedServer(
            self._handle,
            self._watch,
            self._limits,
            self._trusts,
            handler_cancellation=True,
            access_log=None,
            logger=silent_logger,
            auto_decompress=False,
            keepalive_timeout=_IDLE_SECONDS,
            max_line_size=self._limits.head_bytes,
            max_field_size=self._limits.head_bytes,
            lingering_time=_LINGERING_SECONDS,
            read_bufsize=_BODY_BYTES,
        )

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        caller = Caller(request, self._watch)
        try:
            return await self._forward(caller)
        except Problem as problem:
            return _refuse(caller, problem, is_closing=self._is_closing)
        except CallerDisconnected:
            return RelayedResponse(499, keep_alive=False)
        except Exception:
            logger.exception("a request failed in the proxy")
            failed = Problem("The request failed in the proxy.")
            return _refuse(caller, failed, is_closing=self._is_closing)

    async def _forward(self, caller: Caller) -> web.StreamResponse:
        request = caller.request
        if self._is_closing:
            raise Unavailable("The proxy is being stopped. Send the request again.")
        target = request.raw_path
        host = read_host(request.raw_headers, target)
        routed = self._table.find(host)
        if routed is None:
            raise NotFound(f"No environment answers at the host {host[:_HOST_CHARACTERS]}.")
        head = self._head(caller, target)
        self._slots.take(routed.environment_id)
        self._watch.enter(caller)
        try:
            exchange = Exchange(
                caller, head, self._response_timeout_seconds, self._watch, self._streams, self._scheduler
            )
            return await exchange.run(self._connector, routed, self._hold_seconds)
        finally:
            self._watch.leave(caller)
            self._slots.release(routed.environment_id)

    def _head(self, caller: Caller, target: str) -> RequestHead:
        request = caller.request
        return write_request_head(
            request.method,
            target,
            request.raw_headers,
            peer=caller.peer,
            scheme="http",
            keeps_forwarded=self._trusts(caller.peer),
            is_http_11=request.version >= HttpVersion11,
            max_bytes=self._limits.head_bytes,
        )


def _refuse(caller: Caller, problem: Problem, *, is_closing: bool) -> web.StreamResponse:
    if caller.has_response:
        caller.cut()
        return RelayedResponse(problem.status, keep_alive=False)
    response = build_problem_response(problem)
    body = caller.request.content
    if is_closing or (caller.request.body_exists and (not body.is_eof() or body.exception() is not None)):
        response.force_close()
    return response
