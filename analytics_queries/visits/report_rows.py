"""Collects the rows that the queries of a report return, by their kind."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from analytics_queries.visits.period_figures import Figures


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a list: its number of visitors, and its number of page views, visits or events."""

    name: str
    visitors: int
    number: int


@dataclass(frozen=True, slots=True)
class Conversions:
    """The number of conversions of a goal, their visitors and their revenue."""

    number: int = 0
    visitors: int = 0
    revenue: Sequence[tuple[str, int]] = ()
    """Pairs of a currency and an amount in millionths, sorted by currency."""

    def __add__(self, other: "Conversions") -> "Conversions":
        revenue = Counter[str]()
        for currency, amount in [*self.revenue, *other.revenue]:
            revenue[currency] += amount
        return Conversions(
            self.number + other.number, self.visitors + other.visitors, sorted(revenue.items())
        )


@dataclass(frozen=True, slots=True)
class Speed:
    """The 75th percentile of a Web Vital: the smallest value that three quarters of the samples do not exceed."""

    p75: float
    samples: int


@dataclass(slots=True)
class FoundRows:
    """The rows that the queries of a report have returned."""

    by_day: dict[date, Figures] = field(default_factory=dict)
    lists: defaultdict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    goals: dict[tuple[str, str], Conversions] = field(default_factory=dict)
    speed: dict[str, Speed] = field(default_factory=dict)

    def add_goal(self, kind: str, name: str, conversions: Conversions) -> None:
        """Add these conversions to those of the goal."""
        self.goals[kind, name] = self.goals.get((kind, name), Conversions()) + conversions

    def add_rows(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows of the kinds that `read_visits.sql` describes."""
        for kind, name, visitors, numbers, money, value in rows:
            if kind == "day":
                views, *others = numbers
                self.by_day[date.fromisoformat(name)] = Figures(views, visitors, *others)
            elif kind in ("goal_event", "goal_path"):
                self.add_goal(kind, name, Conversions(numbers[0], visitors, [*map(tuple, money)]))
            elif kind == "web_vital":
                self.speed[name] = Speed(value, numbers[0])
            else:
                self.lists[kind].append(Entry(name, visitors, numbers[0]))
