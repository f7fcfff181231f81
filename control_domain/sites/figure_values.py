"""Figures for reports: computes means, rates and changes from counts, all rounded alike."""

from fractions import Fraction
from typing import TypedDict

from analytics_queries.visits.period_figures import Figures
from analytics_queries.visits.report_rows import Speed

# The largest good value of a metric, and the largest that needs improvement (web.dev/articles/vitals).
RATINGS = {
    "lcp": (2500, 4000),
    "inp": (200, 500),
    "cls": (0.1, 0.25),
    "fcp": (1800, 3000),
    "ttfb": (800, 1800),
}


class SpeedDocument(TypedDict):
    """The 75th percentile of a Web Vital. `p75` and `rating` are null without samples."""

    p75: float | None
    unit: str
    rating: str | None
    samples: int


def figure_values(figures: Figures, days: int) -> dict[str, float]:
    """Return the figures of a period that has this number of days, by name."""
    return {
        "pageviews": figures.pageviews,
        "visitors": int(round_half_away(Fraction(figures.visitors, days))),
        "visits": figures.visits,
        "conversion_rate": percent(figures.converted, figures.visitors),
        "bounce_rate": percent(figures.bounces, figures.judged),
        "visit_duration": int(round_half_away(Fraction(figures.duration_ms, 1000 * (figures.judged or 1)))),
    }


def change_of(name: str, value: float, before: float) -> float:
    """Return the change of the figure `name`: the difference in percentage points for rates, else the change in
    percent."""
    if name.endswith("_rate"):
        return float(round_half_away(_exact(value) - _exact(before), 1))
    if not before:
        return 100.0 if value else 0.0
    return float(round_half_away((_exact(value) - _exact(before)) * 100 / _exact(before), 1))


def percent(part: int, whole: int) -> float:
    """Return the percentage with one decimal; 0 of nothing."""
    return float(round_half_away(Fraction(100 * part, whole), 1)) if whole else 0.0


def round_half_away(value: Fraction, decimals: int = 0) -> Fraction:
    """Round half away from zero."""
    scale = 10**decimals
    scaled = abs(value) * scale
    whole = int(scaled + Fraction(1, 2))
    return Fraction(whole if value >= 0 else -whole, scale)


def _exact(figure: float) -> Fraction:
    """Return the exact value of a figure with one decimal."""
    return Fraction(round(figure * 10), 10)


def describe_speed(name: str, speed: Speed | None) -> SpeedDocument:
    """Return the document of the metric `name`, such as `lcp`."""
    unit = "" if name == "cls" else "ms"
    if speed is None:
        return {"p75": None, "unit": unit, "rating": None, "samples": 0}
    good, fair = RATINGS[name]
    rating = "good" if speed.p75 <= good else "needs-improvement" if speed.p75 <= fair else "poor"
    return {"p75": speed.p75, "unit": unit, "rating": rating, "samples": speed.samples}
