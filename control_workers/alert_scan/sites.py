"""Reads conditions of sites: far more visitors than usual, no visitors, or a poor Web Vital.

Usual values come from the daily rollups. The column store also counts the events of each site and day. Single events
are only read for sites whose state may have changed, according to these counts.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from analytics_queries.alerts.site_visitors import (
    USUAL_DAYS,
    RecentVisitors,
    UsualVisitors,
    events_of_days,
    recent_visitors,
    usual_visitors,
)
from analytics_queries.alerts.site_vitals import VitalFigures, site_vitals
from control_domain.sites.operations import SiteWithProject
from control_workers.alert_scan.conditions import Observed, Reading, Scope
from control_workers.alert_scan.judge import Remembered
from control_workers.alert_scan.phases import Limits
from control_workers.alert_scan.shared_queries import SharedQuery, weigh
from storage_backends.column_store.interface import ColumnStore

# Maximum number of sites that one query reads.
_MOST = 5000
SPIKE_PREFIX = "site spike "
SILENCE_PREFIX = "site silence "
VITAL_PREFIX = "site vital "
LEAST_VISITORS = 50
"""Minimum number of visitors within ten minutes. Fewer visitors are no spike."""
TIMES_USUAL = 5.0
LEAST_VISITS = 5
"""No visitors are unusual if at least this many visits began in the same hour on each of the last seven days."""
_SILENT = Limits(0.5, 0.5, is_above=False)
LEAST_MEASUREMENTS = 50
VITALS: Mapping[str, Limits] = {
    "LCP": Limits(4000.0, 3600.0),
    "INP": Limits(500.0, 450.0),
    "CLS": Limits(0.25, 0.225),
}
"""The values of the 75th percentile that web.dev calls poor, in milliseconds (CLS has no unit). A Web Vital recovers at
nine tenths of the value."""
_UNITS = {"LCP": "ms", "INP": "ms"}


class SiteScan:
    """Reads the traffic and the Web Vitals of sites."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self._recent = SharedQuery("visitors of sites", _MOST, seconds=5.0)
        self._usual = SharedQuery("usual visitors of sites", _MOST, seconds=5.0)
        self._vitals = SharedQuery("Web Vitals of sites", _MOST, seconds=8.0)

    async def read_traffic(
        self,
        sites: Sequence[SiteWithProject],
        states: Mapping[str, Remembered],
        now: datetime,
        *,
        knows_silence: bool,
    ) -> tuple[Reading, Reading]:
        """Return the spikes, and the sites without visitors. `knows_silence`: False if events may be missing because
        Pharos received or stored none.

        Raises `StorageUnavailable` and `QueryRefused`.
        """
        today = now.date()
        # Read one more day, because the same hour of the first day may belong to two days in UTC.
        days = [today - timedelta(days=ago) for ago in range(1, USUAL_DAYS + 2)]
        events = await events_of_days(self._store, days[-1])
        busy, regular = set(), set()
        for found in sites:
            of_days = events.get(found.site.id, {})
            if of_days.get(today, 0) + of_days.get(days[0], 0) >= LEAST_VISITORS:
                busy.add(found.site.id)
            if sum(of_days.get(day, 0) >= LEAST_VISITS for day in (today, *days)) >= USUAL_DAYS:
                regular.add(found.site.id)
        spiking, silent = _known(states, SPIKE_PREFIX), _known(states, SILENCE_PREFIX)
        recent = await self._read_recent(_choose(sites, busy | regular | spiking | silent), now)
        many = {site for site in busy if recent[site].visitors >= LEAST_VISITORS} | spiking
        quiet = {site for site in regular if recent[site].events == 0}
        usual = await self._read_usual(_choose(sites, many | quiet), now)
        for found in sites:
            # A day without events has no rollup, and no visits are expected on it.
            had_events = any(events.get(found.site.id, {}).get(day, 0) for day in days)
            if not had_events and found.site.created_at <= now - timedelta(days=USUAL_DAYS):
                usual.setdefault(found.site.id, _NOTHING)
        spikes = [
            _observe_spike(found, recent[found.site.id], usual.get(found.site.id))
            for found in sites
            if found.site.id in many and (found.site.id in usual or found.site.id in spiking)
        ]
        silences = [
            _observe_silence(found, recent[found.site.id], usual.get(found.site.id))
            for found in sites
            if found.site.id in silent or _is_unusual(found.site.id, quiet, usual)
        ]
        return Reading(SPIKE_PREFIX, spikes), Reading(SILENCE_PREFIX, silences if knows_silence else None)

    async def _read_recent(
        self, sites: Sequence[SiteWithProject], now: datetime
    ) -> Mapping[int, RecentVisitors]:
        """Return the recent figures of each of these sites."""
        found: dict[int, RecentVisitors] = {}
        of_accounts, weighed = weigh(sites, _account_of)

        async def query(accounts: Sequence[int]) -> None:
            some = [each.site.id for account in accounts for each in of_accounts[account]]
            visitors = await recent_visitors(self._store, some, now)
            found.update({site: visitors.get(site, RecentVisitors()) for site in some})

        await self._recent.run(weighed, query, now)
        return {each.site.id: found.get(each.site.id, _UNKNOWN) for each in sites}

    async def _read_usual(self, sites: Sequence[SiteWithProject], now: datetime) -> dict[int, UsualVisitors]:
        found: dict[int, UsualVisitors] = {}
        of_accounts, weighed = weigh(sites, _account_of)

        async def query(accounts: Sequence[int]) -> None:
            some = [each.site for account in accounts for each in of_accounts[account]]
            found.update(await usual_visitors(self._store, {site.id: site.timezone for site in some}, now))

        await self._usual.run(weighed, query, now)
        return found

    async def read_vitals(
        self, sites: Sequence[SiteWithProject], states: Mapping[str, Remembered], now: datetime
    ) -> Reading:
        """Return the Web Vitals that have enough measurements, and those that have a stored state. Raises
        `StorageUnavailable` and `QueryRefused`."""
        counts = await events_of_days(self._store, now.date() - timedelta(days=1))
        events = {
            found.site.id: most
            for found in sites
            if (most := max(counts.get(found.site.id, {}).values(), default=0)) >= LEAST_MEASUREMENTS
        }
        figures: dict[tuple[int, str], VitalFigures] = {}
        of_accounts, weighed = weigh(_choose(sites, events), _account_of)

        async def query(accounts: Sequence[int]) -> None:
            some = {
                each.site.id: events[each.site.id] for account in accounts for each in of_accounts[account]
            }
            figures.update(await site_vitals(self._store, some, VITALS, now, LEAST_MEASUREMENTS))

        await self._vitals.run(weighed, query, now)
        return Reading(VITAL_PREFIX, _observe_vitals(sites, states, figures))


_UNKNOWN = RecentVisitors(-1, -1)
"""Stands for the figures of a site that could not be read."""
_NOTHING = UsualVisitors([0] * USUAL_DAYS, 0.0)


def _known(states: Mapping[str, Remembered], prefix: str) -> set[int]:
    return {int(key.removeprefix(prefix)) for key in states if key.startswith(prefix)}


def _is_unusual(site: int, quiet: set[int], usual: Mapping[int, UsualVisitors]) -> bool:
    return site in quiet and site in usual and min(usual[site].visits) >= LEAST_VISITS


def _known_or_none(count: int) -> float | None:
    return None if count < 0 else float(count)


def _observe_spike(found: SiteWithProject, recent: RecentVisitors, usual: UsualVisitors | None) -> Observed:
    key = f"{SPIKE_PREFIX}{found.site.id}"
    threshold = max(float(LEAST_VISITORS), TIMES_USUAL * usual.of_window if usual is not None else 0.0)
    facts = {**_facts(found), "usual": None if usual is None else round(usual.of_window, 1)}
    limits = Limits(threshold, threshold / 2)
    return Observed(
        key,
        _scope(found),
        "site.spike",
        f"spike {found.site.id}",
        limits,
        _known_or_none(recent.visitors),
        facts,
    )


def _observe_silence(found: SiteWithProject, recent: RecentVisitors, usual: UsualVisitors | None) -> Observed:
    key = f"{SILENCE_PREFIX}{found.site.id}"
    facts = {**_facts(found), "usual_visits": None if usual is None else min(usual.visits)}
    value = _known_or_none(min(recent.events, 1))
    return Observed(key, _scope(found), "site.silence", f"silence {found.site.id}", _SILENT, value, facts)


def _observe_vitals(
    sites: Sequence[SiteWithProject],
    states: Mapping[str, Remembered],
    figures: Mapping[tuple[int, str], VitalFigures],
) -> Sequence[Observed]:
    observed = []
    for found in sites:
        for vital, limits in VITALS.items():
            key = f"{VITAL_PREFIX}{found.site.id} {vital}"
            measured = figures.get((found.site.id, vital))
            if measured is None and key not in states:
                continue
            facts = {**_facts(found), "vital": vital, "unit": _UNITS.get(vital, "")}
            if measured is not None:
                facts["measurements"] = measured.measurements
            value = None if measured is None else round(measured.p75, 3)
            subject = f"vital {found.site.id} {vital}"
            observed.append(Observed(key, _scope(found), "site.vital", subject, limits, value, facts))
    return observed


def _account_of(found: SiteWithProject) -> int:
    return found.project.account_id


def _choose(sites: Sequence[SiteWithProject], numbers: Collection[int]) -> Sequence[SiteWithProject]:
    return [found for found in sites if found.site.id in numbers]


def _scope(found: SiteWithProject) -> Scope:
    return Scope(found.project.account_id, found.project.id)


def _facts(found: SiteWithProject) -> dict[str, object]:
    return {"site": found.site.name, "site_id": found.site.id}
