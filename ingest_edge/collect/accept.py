"""Accept page views and events of browsers: from a collect request to a durable 202, without storing who sent it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import orjson
from aiohttp import hdrs, web

from ingest_edge.collect.countries import Countries, normalize_country
from ingest_edge.collect.daily_salts import DailySalts
from ingest_edge.collect.decode import DecodedEvents, decode_events, refuse_events
from ingest_edge.collect.dropped import BOT, OPTED_OUT, PREFETCH, REVENUE_IGNORED, DroppedEvents
from ingest_edge.collect.events import collect_events, count_ignored_revenue
from ingest_edge.collect.user_agents import UserAgents, load_user_agents
from ingest_edge.collect.visitors import VisitorHashes
from ingest_edge.intake import Intake, now_ms
from ingest_edge.limits import Limits
from ingest_edge.responses import json_response
from pipeline_contracts import topics
from pipeline_contracts.client_address import ClientAddresses, network_of
from pipeline_contracts.collected import Collected, CollectMeta, encode_collected
from pipeline_contracts.credentials import CredentialKind, digest_credential
from pipeline_contracts.errors import (
    FieldError,
    MethodNotAllowed,
    NotFound,
    OriginNotRegistered,
    Problem,
    StorageUnavailable,
    Unavailable,
    UnsupportedMediaType,
)
from pipeline_contracts.origins import is_registered
from storage_backends.key_directory.interface import KeyEntry, SiteEntry

COLLECT = "/api/v1/collect/"

# Enough for twenty events with long paths and properties.
_BODY_BYTES = 256 * 1024
_MAX_ID_LENGTH = 64
_TYPES = ("text/plain", "application/json")
_TOO_DEEP = FieldError("", "is nested too deeply")
_PREFLIGHT: dict[str, str] = {
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "POST",
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Content-Type",
    hdrs.ACCESS_CONTROL_MAX_AGE: "86400",
}


@dataclass(slots=True)
class AcceptCollect:
    """The handler of `OPTIONS` and `POST /v1/collect/{publicId}`."""

    intake: Intake
    salts: DailySalts
    addresses: ClientAddresses
    countries: Countries
    dropped: DroppedEvents
    country_header: str | None = None
    """The header in which a trusted proxy sends the country."""
    _limits: Limits = field(init=False)
    _user_agents: "asyncio.Future[UserAgents] | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._limits = replace(self.intake.limits, body_bytes=_BODY_BYTES, decompressed_bytes=_BODY_BYTES)

    async def accept(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond to a preflight, or store events."""
        method = request.method
        if method not in ("POST", "OPTIONS"):
            raise MethodNotAllowed(
                "This address takes POST and OPTIONS.", headers={hdrs.ALLOW: "POST, OPTIONS"}
            )
        entry, site = await self._find_site(request.path.removeprefix(COLLECT))
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is None or not is_registered(origin, site.origins):
            raise OriginNotRegistered("Pages of this origin are not registered for the site.")
        if method == "OPTIONS":
            return web.Response(status=204, headers=_PREFLIGHT | _cors_headers(origin))
        try:
            return await self._collect(request, entry, site, origin)
        except (Problem, RecursionError) as error:
            # Properties at the nesting limit of the decoder may be too deep for the encoder.
            problem = error if isinstance(error, Problem) else refuse_events([_TOO_DEEP])
            # The page's script must be able to read the reason.
            problem.headers.update(_cors_headers(origin))
            problem.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = hdrs.RETRY_AFTER
            raise problem from error.__cause__

    async def _find_site(self, public_id: str) -> tuple[KeyEntry, SiteEntry]:
        entry = None
        if public_id.startswith(CredentialKind.SITE.value) and len(public_id) <= _MAX_ID_LENGTH:
            try:
                entry = await self.intake.directory.find(_digest(public_id))
            except StorageUnavailable as error:
                raise Unavailable("The site cannot be looked up now.") from error
        if entry is None or entry.site is None:
            raise NotFound("There is no site of this ID.")
        return entry, entry.site

    async def _collect(
        self, request: web.BaseRequest, entry: KeyEntry, site: SiteEntry, origin: str
    ) -> web.StreamResponse:
        received_ms = now_ms()
        headers = request.headers
        _check_content_type(headers.get(hdrs.CONTENT_TYPE))
        user_agents = await self._wait_for_user_agents()
        intake = self.intake
        # A proxy may add a second header line below the caller's: together they are one list.
        forwarded = ",".join(headers.getall(hdrs.X_FORWARDED_FOR, ())) or None
        address = self.addresses.find(request.remote, forwarded)
        lease = intake.budgets.collect.lease(network_of(address))
        try:
            decoded = decode_events(await intake.read(request, self._limits, lease))
            sent, invalid = decoded.valid, sum(decoded.invalid.values()) if decoded.invalid else 0
            if not sent:
                self._count_invalid(site, decoded)
                raise refuse_events(decoded.faults)
            user_agent = headers.get(hdrs.USER_AGENT, "")
            client = user_agents.parse(user_agent)
            reason = BOT if client is None else _drop_reason(headers)
            if client is None or reason is not None:
                self.dropped.count(site.site_id, reason or BOT, len(sent) + invalid)
                return _accepted(0, len(sent) + invalid, origin)
            salts = await self.salts.get(received_ms)
            hashes = VisitorHashes(salts, site.site_id, address, user_agent)
            events = collect_events(sent, received_ms, site.origins, client, hashes)
            record = encode_collected(Collected(self._country(request, address), events))
            meta = encode_collected(CollectMeta(site.site_id, received_ms, len(events)))
            # Only refusals have the headers with the remaining rate: each header costs 1 % of a request's time.
            await intake.store(
                _collect_account(entry), len(events), topics.PAGEVIEWS, _log_key(site.site_id), meta, record
            )
            if ignored := count_ignored_revenue(sent, events):
                self.dropped.count(site.site_id, REVENUE_IGNORED, ignored)
        finally:
            lease.release()
        if invalid:
            # Count dropped events only now, because a client sends a request that was not stored again.
            self._count_invalid(site, decoded)
        return _accepted(len(events), invalid, origin)

    def _count_invalid(self, site: SiteEntry, decoded: DecodedEvents) -> None:
        for reason, events in decoded.invalid.items():
            self.dropped.count(site.site_id, reason, events)

    async def _wait_for_user_agents(self) -> UserAgents:
        if self._user_agents is None:
            self._user_agents = asyncio.get_running_loop().run_in_executor(None, load_user_agents)
        if not self._user_agents.done():
            await asyncio.shield(self._user_agents)
        return self._user_agents.result()

    def _country(self, request: web.BaseRequest, address: str) -> str:
        if self.country_header is not None and self.addresses.is_trusted(request.remote):
            country = normalize_country(request.headers.get(self.country_header))
            if country:
                return country
        return self.countries.find(address)


@lru_cache(16_384)
def _digest(public_id: str) -> bytes:
    return digest_credential(public_id)


@lru_cache(16_384)
def _log_key(site_id: int) -> bytes:
    """Return the log key of a site. All its events are in one partition, because a visit that continues over midnight
    has two visitor hashes."""
    return str(site_id).encode()


@lru_cache(16_384)
def _collect_account(entry: KeyEntry) -> KeyEntry:
    """Return the entry with a separate rate limit: a flood of a public tracker ID must not use up the rate of the
    account's servers."""
    return replace(entry, account_id=f"{entry.account_id}/collect")


def _check_content_type(content_type: str | None) -> None:
    if (content_type or "").partition(";")[0].strip().lower() not in _TYPES:
        raise UnsupportedMediaType("The body must be text/plain or application/json, and hold JSON.")


def _drop_reason(headers: Mapping[str, str]) -> str | None:
    if headers.get("Sec-GPC") == "1":
        return OPTED_OUT
    if "prefetch" in headers.get("Sec-Purpose", "") or headers.get("Purpose") == "prefetch":
        return PREFETCH
    return None


def _cors_headers(origin: str) -> dict[str, str]:
    return {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin, hdrs.VARY: hdrs.ORIGIN}


def _accepted(accepted: int, dropped: int, origin: str) -> web.Response:
    return json_response(202, _encode_counts(accepted, dropped), _cors_headers(origin))


@lru_cache(64)
def _encode_counts(accepted: int, dropped: int) -> bytes:
    return orjson.dumps({"data": {"accepted": accepted, "dropped": dropped}})
