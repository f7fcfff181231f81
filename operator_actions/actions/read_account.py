"""What an operator wants of accounts, people and tokens, read and checked. All raise `Refused`, which says what to
do."""

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from control_domain.accounts.roles import ACCOUNT_ROLES, SCOPES
from control_domain.refusals import Refused
from pipeline_contracts.rate_limits import RateLimit

_LONGEST_EMAIL = 254
# No more than tells an address from something else: only a message to it would prove it.
_EMAIL = re.compile(r"[^@\s<>,;:\"]+@[^@\s<>,;:\"]+")
_LEAST_RATE = 0.001
_MOST_RATE = 1e9
# What the column holds in Postgres.
_MOST_BURST = 2**31 - 1
_SHORTEST_LIFE = timedelta(minutes=1)
_LONGEST_LIFE = timedelta(days=3650)


def read_email(params: Mapping[str, Any], name: str) -> str:
    """An e-mail address, in lower case: people are told apart by it, and hardly anybody minds the case."""
    email = str(params.get(name) or "").strip().lower()
    if _EMAIL.fullmatch(email) is None or len(email) > _LONGEST_EMAIL or not email.isprintable():
        raise Refused(f"{email!r} is no e-mail address: write one like ada@example.com.")
    return email


def read_role(params: Mapping[str, Any], otherwise: str = "") -> str:
    """`role` in an account, or the other one where it is left out."""
    role = str(params.get("role") or otherwise)
    if role not in ACCOUNT_ROLES:
        raise Refused(f"{role!r} is no role in an account: choose one of {', '.join(ACCOUNT_ROLES)}.")
    return role


def read_scopes(params: Mapping[str, Any]) -> list[str]:
    """`scopes`, each once and in their usual order."""
    given = params.get("scopes") or []
    scopes = {str(scope) for scope in given}
    for scope in scopes - set(SCOPES):
        raise Refused(f"{scope!r} is no scope: choose from {', '.join(SCOPES)}.")
    if not scopes:
        raise Refused(f"A token has at least one scope: give --scope with {', '.join(SCOPES)}.")
    return [scope for scope in SCOPES if scope in scopes]


def read_expiry(params: Mapping[str, Any], now: datetime) -> datetime | None:
    """The end of `expires_seconds` from now; None where it is left out: never."""
    seconds = params.get("expires_seconds")
    if seconds is None:
        return None
    if not _SHORTEST_LIFE.total_seconds() <= int(seconds) <= _LONGEST_LIFE.total_seconds():
        raise Refused(f"A token expires after 1 minute to {_LONGEST_LIFE.days} days: write --expires 90d.")
    return now + timedelta(seconds=int(seconds))


def read_limit(params: Mapping[str, Any]) -> RateLimit:
    """`rate`, events a second, and `burst`, events at once."""
    rate, burst = float(params["rate"]), int(params["burst"])
    if not math.isfinite(rate) or not _LEAST_RATE <= rate <= _MOST_RATE:
        raise Refused(f"A rate is {_LEAST_RATE} to {_MOST_RATE:,.0f} events a second: give another.")
    if not 1 <= burst <= _MOST_BURST:
        raise Refused(f"A burst is 1 to {_MOST_BURST:,} events at once: give another.")
    return RateLimit(rate, burst)
