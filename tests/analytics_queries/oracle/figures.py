"""Exact arithmetic: rounding, rates, changes, and numbers in properties."""

import math
import re
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

NUMERIC = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
CURRENCY = re.compile(r"[A-Za-z]{3}")
MILLIONTH = Decimal("0.000001")


def round_half_away(value: Fraction) -> int:
    """Return the nearest whole number; halves are rounded away from zero."""
    whole = math.floor(abs(value) + Fraction(1, 2))
    return -whole if value < 0 else whole


def mean(total: int, count: int) -> int:
    """Return `total / count`, rounded half up; 0 if `count` is 0."""
    return round_half_away(Fraction(total, count)) if count else 0


def percent(part: int, whole: int) -> float:
    """Return `part` in percent of `whole` with one decimal, rounded half up; 0 if `whole` is 0."""
    return round_half_away(Fraction(part * 1000, whole)) / 10 if whole else 0.0


def metric(value: float, previous: float, is_rate: bool) -> dict[str, float]:
    """Return a figure of the report from its rounded values in both periods."""
    now, before = Fraction(str(value)), Fraction(str(previous))
    if is_rate:
        change = round_half_away((now - before) * 10) / 10
    elif before == 0:
        change = 100.0 if now > 0 else 0.0
    else:
        change = round_half_away((now - before) * 1000 / before) / 10
    return {"value": value, "previous": previous, "change": change}


def number(value: Any) -> Decimal | None:
    """Return the exact value of a finite JSON number; None for any other value, including texts and booleans."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Decimal(str(value))


def revenue(properties: dict[str, Any]) -> tuple[str, Decimal] | None:
    """Return the currency (upper-case) and the amount, rounded to six decimals; None if one is missing or invalid."""
    amount, currency = properties.get("revenue"), properties.get("currency")
    if not isinstance(currency, str) or not CURRENCY.fullmatch(currency):
        return None
    exact = number(amount)
    if isinstance(amount, str) and NUMERIC.fullmatch(amount):
        exact = Decimal(amount)
    if exact is None:
        return None
    return currency.upper(), exact.quantize(MILLIONTH, rounding=ROUND_HALF_UP)
