"""The releases of the demo shop: its commits, and the outcome of each deployment."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from demo.traffic.faults import ReleaseTimes

INGRID, JONAS = "Ingrid Solberg", "Jonas Berg"

Outcome = Literal["succeeded", "failed", "canceled", "rejected"]


class Commit(NamedTuple):
    """A commit of the shop on its branch `main`."""

    version: str
    subject: str
    author: str
    hours_ago: float
    """Before the first start of the demo."""


COMMITS = (
    Commit("2.7.0", "Show stock on product pages", INGRID, 684),
    Commit("2.7.1", "Fix rounding of prices in NOK", JONAS, 652),
    Commit("2.8.0", "Gift wrapping at check-out", INGRID, 511),
    Commit("2.8.1", "Retry payments that time out", JONAS, 507),
    Commit("2.9.0", "Search by colour and material", INGRID, 420),
    Commit("2.10.0", "Load product photos lazily", JONAS, 333),
    Commit("2.11.0", "New cart with saved items", INGRID, 262),
    Commit("2.11.1", "Index carts by customer", INGRID, 239),
    Commit("2.12.0", "Ask for the country on the first step", JONAS, 148),
    Commit("2.12.1", "Carts without a country use the default zone", JONAS, 141),
    Commit("2.13.0", "Restock notices by e-mail", INGRID, 49),
)
"""Commits that were deployed before the demo starts."""

NEXT_COMMITS = (
    Commit("2.13.1", "Resize photos in the worker", JONAS, 5),
    Commit("2.14.0", "Move the health check", JONAS, 3),
    Commit("2.14.1", "Answer the health check at /healthz again", INGRID, 1),
)
"""Commits that the demo deploys itself: the second one fails its health check."""

FAULTY_VERSION, FIXED_VERSION = "2.12.0", "2.12.1"
BRANCHES = {
    "gift-cards": Commit("2.15.0-gift-cards", "Gift cards: buy and redeem", INGRID, 7),
    "dark-mode": Commit("2.15.0-dark-mode", "A dark theme for the evening", JONAS, 26),
}
"""Branches with a preview, each one commit ahead of `main`."""


class PastDeployment(NamedTuple):
    """A deployment in the past. `hours_ago` is when it was queued; `version` is that of its commit."""

    environment: Literal["production", "staging"]
    version: str
    hours_ago: float
    outcome: Outcome
    trigger: Literal["push", "api", "rollback", "promotion"]
    seconds: int
    person: str | None = None
    note: str | None = None


_SPECIAL = (
    PastDeployment("production", "2.8.0", 510.5, "failed", "push", 41, note="pushed by ingrid"),
    PastDeployment("production", "2.11.0", 260.2, "succeeded", "push", 38, note="pushed by ingrid"),
    PastDeployment(
        "production", "2.10.0", 258.6, "succeeded", "rollback", 6, JONAS, "Carts take four seconds to open"
    ),
    PastDeployment("staging", "2.12.0", 149.0, "canceled", "api", 12, JONAS),
    PastDeployment("production", "2.13.0", 46.0, "succeeded", "promotion", 9, INGRID, "Agreed with support"),
)
# Production has another deployment of each of these versions above.
_NOT_PUSHED = ("2.8.0", "2.11.0", "2.13.0")


def list_past_deployments() -> list[PastDeployment]:
    """Return the past deployments of the shop, the oldest first."""
    return sorted([*_SPECIAL, *_list_usual()], key=lambda each: -each.hours_ago)


def _list_usual() -> Iterator[PastDeployment]:
    for number, commit in enumerate(COMMITS):
        seconds, note = 29 + number * 7 % 16, f"pushed by {commit.author.split()[0].lower()}"
        staged = commit.hours_ago - 0.1
        yield PastDeployment("staging", commit.version, staged, "succeeded", "push", seconds, note=note)
        if commit.version not in _NOT_PUSHED:
            yield PastDeployment(
                "production", commit.version, staged - 1.3, "succeeded", "push", seconds + 9, note=note
            )


class Timeline(NamedTuple):
    """The live version of the shop over time."""

    began: datetime
    """The first start of the demo."""

    def at(self, hours_ago: float) -> datetime:
        return self.began - timedelta(hours=hours_ago)

    def version_at(self, moment: datetime) -> str:
        """Return the version that production served at a past moment; for times after the start, the version of the
        newest commit."""
        if moment >= self.began:
            return NEXT_COMMITS[-1].version
        live = COMMITS[0].version
        for each in list_past_deployments():
            if each.environment == "production" and each.outcome == "succeeded":
                if self._live_since(each) > moment:
                    break
                live = each.version
        return live

    def release_times(self) -> ReleaseTimes:
        """Return the period in which the release with the fault in the check-out was live."""
        found = {
            each.version: self._live_since(each).timestamp()
            for each in list_past_deployments()
            if each.environment == "production"
        }
        return ReleaseTimes(found[FAULTY_VERSION], found[FIXED_VERSION])

    def _live_since(self, each: PastDeployment) -> datetime:
        return self.at(each.hours_ago) + timedelta(seconds=each.seconds)
