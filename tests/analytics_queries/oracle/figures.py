"""Exact numbers: rounding, rates, changes, numbers found in properties."""

import math
import re
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

NUMERIC = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
CURRENCY = re.compile(r"[A-Za-z]{3}")
MILLIONTH = Decimal("0.000001")


def half_away(value: Fraction) -> int:
    """The nearest whole number; of a half the one further from zero, which is half up for what is not negative."""
    whole = math.floor(abs(value) + Fraction(1, 2))
    return -whole if value < 0 else whole


def mean(total: int, count: int) -> int:
    """`total / count` rounded half up; 0 of nothing."""
    return half_away(Fraction(total, count)) if count else 0


def percent(part: int, whole: int) -> float:
    """`part` in percent of `whole` with one decimal, rounded half up; 0 of nothing."""
    return half_away(Fraction(part * 1000, whole)) / 10 if whole else 0.0


def metric(value: float, previous: float, is_rate: bool) -> dict[str, float]:
    """A figure of the report; both numbers as shown."""
    now, before = Fraction(str(value)), Fraction(str(previous))
    if is_rate:
        change = half_away((now - before) * 10) / 10
    elif before == 0:
        change = 100.0 if now > 0 else 0.0
    else:
        change = half_away((now - before) * 1000 / before) / 10
    return {"value": value, "previous": previous, "change": change}


def number(value: Any) -> Decimal | None:
    """The exact value of a finite JSON number as it is written; None of anything else, texts and booleans too."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Decimal(str(value))


def revenue(properties: dict[str, Any]) -> tuple[str, Decimal] | None:
    """Currency (upper-case) and amount of an event, rounded to six decimals; None where one is missing or no such."""
    amount, currency = properties.get("revenue"), properties.get("currency")
    if not isinstance(currency, str) or not CURRENCY.fullmatch(currency):
        return None
    exact = number(amount)
    if isinstance(amount, str) and NUMERIC.fullmatch(amount):
        exact = Decimal(amount)
    if exact is None:
        return None
    return currency.upper(), exact.quantize(MILLIONTH, rounding=ROUND_HALF_UP)
