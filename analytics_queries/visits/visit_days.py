"""The visits of some days of a site, told from its events: a part of other questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from analytics_queries.visits.calendar_days import utc_days_around, utc_days_of
from pipeline_contracts.times import to_epoch_ms
from storage_backends.sql_files import read_sql

VISIT_DAYS = read_sql(__file__)


@dataclass(frozen=True, slots=True)
class VisitDays:
    """Which days are to be told, as the SQL wants it. Events from `now` on are left out."""

    site_id: int
    timezone: str
    days: Sequence[date]
    now: datetime

    def parameters(self) -> dict[str, Any]:
        """What `VISIT_DAYS` is bound to."""
        return {
            "site_id": self.site_id,
            "timezone": self.timezone,
            "days": list(self.days),
            "own_days": utc_days_of(self.days, self.timezone),
            "read_days": utc_days_around(self.days, self.timezone),
            "now_ms": to_epoch_ms(self.now),
        }
