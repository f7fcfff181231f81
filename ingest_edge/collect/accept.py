"""Page views and events of browsers: from a collect request to a durable 202, with nothing that tells who it was."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import orjson
from aiohttp import hdrs, web

from ingest_edge.answers import json_answer
from ingest_edge.collect.countries import Countries, country_code
from ingest_edge.collect.daily_salts import DailySalts
from ingest_edge.collect.decode import DecodedEvents, decode_events, refuse_events
from ingest_edge.collect.dropped import BOT, OPTED_OUT, PREFETCH, REVENUE_IGNORED, DroppedEvents
from ingest_edge.collect.events import collect_events, count_ignored_revenue
from ingest_edge.collect.user_agents import UserAgents, load_user_agents
from ingest_edge.collect.visitors import VisitorHashes
from ingest_edge.intake import Intake, now_ms
from ingest_edge.limits import Limits
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

# Twenty events with long paths and properties; nobody needs megabytes for them.
_BODY_BYTES = 256 * 1024
_LONGEST_ID = 64
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
    """The header in which a trusted proxy tells the country."""
    _limits: Limits = field(init=False)
    _user_agents: "asyncio.Future[UserAgents] | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._limits = replace(self.intake.limits, body_bytes=_BODY_BYTES, decompressed_bytes=_BODY_BYTES)

    async def accept(self, request: web.BaseRequest) -> web.StreamResponse:
        """The preflight, or events."""
        method = request.method
        if method not in ("POST", "OPTIONS"):
            raise MethodNotAllowed(
                "This address takes POST and OPTIONS.", headers={hdrs.ALLOW: "POST, OPTIONS"}
            )
        entry, site = await self._site(request.path.removeprefix(COLLECT))
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is None or not is_registered(origin, site.origins):
            raise OriginNotRegistered("Pages of this origin are not registered for the site.")
        if method == "OPTIONS":
            return web.Response(status=204, headers=_PREFLIGHT | _shared_with(origin))
        try:
            return await self._collect(request, entry, site, origin)
        except (Problem, RecursionError) as error:
            # Properties that the decoder just managed may be too deep to be written again.
            problem = error if isinstance(error, Problem) else refuse_events([_TOO_DEEP])
            # The page's script has to be able to read why.
            problem.headers.update(_shared_with(origin))
            problem.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = hdrs.RETRY_AFTER
            raise problem from error.__cause__

    async def _site(self, public_id: str) -> tuple[KeyEntry, SiteEntry]:
        entry = None
        if public_id.startswith(CredentialKind.SITE.value) and len(public_id) <= _LONGEST_ID:
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
        user_agents = await self._ready_user_agents()
        intake = self.intake
        # A proxy may add its line below the one that the caller has sent: together they are one list.
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
            client = user_agents.read(user_agent)
            reason = BOT if client is None else _reason_to_drop(headers)
            if client is None or reason is not None:
                self.dropped.count(site.site_id, reason or BOT, len(sent) + invalid)
                return _answer(0, len(sent) + invalid, origin)
            salts = await self.salts.around(received_ms)
            hashes = VisitorHashes(salts, site.site_id, address, user_agent)
            events = collect_events(sent, received_ms, site.origins, client, hashes)
            record = encode_collected(Collected(self._country(request, address), events))
            meta = encode_collected(CollectMeta(site.site_id, received_ms, len(events)))
            # What is left of the rate is told to those who are refused alone: each header costs a request 1 %.
            await intake.store(
                _bucket_of(entry), len(events), topics.PAGEVIEWS, _log_key(site.site_id), meta, record
            )
            if ignored := count_ignored_revenue(sent, events):
                self.dropped.count(site.site_id, REVENUE_IGNORED, ignored)
        finally:
            lease.give_back()
        if invalid:
            # Not before: a request that was not stored comes again.
            self._count_invalid(site, decoded)
        return _answer(len(events), invalid, origin)

    def _count_invalid(self, site: SiteEntry, decoded: DecodedEvents) -> None:
        for reason, events in decoded.invalid.items():
            self.dropped.count(site.site_id, reason, events)

    async def _ready_user_agents(self) -> UserAgents:
        if self._user_agents is None:
            self._user_agents = asyncio.get_running_loop().run_in_executor(None, load_user_agents)
        if not self._user_agents.done():
            await asyncio.shield(self._user_agents)
        return self._user_agents.result()

    def _country(self, request: web.BaseRequest, address: str) -> str:
        if self.country_header is not None and self.addresses.is_trusted(request.remote):
            told = country_code(request.headers.get(self.country_header))
            if told:
                return told
        return self.countries.find(address)


@lru_cache(16_384)
def _digest(public_id: str) -> bytes:
    return digest_credential(public_id)


@lru_cache(16_384)
def _log_key(site_id: int) -> bytes:
    """All events of a site are in one partition: a visit goes on over midnight, when its visitor's hash changes."""
    return str(site_id).encode()


@lru_cache(16_384)
def _bucket_of(entry: KeyEntry) -> KeyEntry:
    """Tracker IDs are public: whoever floods one must not use up what the account's own servers may send."""
    return replace(entry, account_id=f"{entry.account_id}/collect")


def _check_content_type(content_type: str | None) -> None:
    if (content_type or "").partition(";")[0].strip().lower() not in _TYPES:
        raise UnsupportedMediaType("The body must be text/plain or application/json, and hold JSON.")


def _reason_to_drop(headers: Mapping[str, str]) -> str | None:
    if headers.get("Sec-GPC") == "1":
        return OPTED_OUT
    if "prefetch" in headers.get("Sec-Purpose", "") or headers.get("Purpose") == "prefetch":
        return PREFETCH
    return None


def _shared_with(origin: str) -> dict[str, str]:
    return {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin, hdrs.VARY: hdrs.ORIGIN}


def _answer(accepted: int, dropped: int, origin: str) -> web.Response:
    return json_answer(202, _counts(accepted, dropped), _shared_with(origin))


@lru_cache(64)
def _counts(accepted: int, dropped: int) -> bytes:
    return orjson.dumps({"data": {"accepted": accepted, "dropped": dropped}})
