"""Descriptions of sites with far more visitors than usual, without visitors, or with a poor Web Vital."""

from collections.abc import Mapping
from typing import Any

from notifications.descriptions.interface import Description, Subject
from notifications.descriptions.read_facts import cut_title, read_number, read_text
from notifications.descriptions.thresholds import explain_limits, list_figures, read_float, write_fact
from notifications.message import Figure

_VITALS = {
    "LCP": "Largest Contentful Paint",
    "INP": "Interaction to Next Paint",
    "CLS": "Cumulative Layout Shift",
}


def describe(subject: Subject) -> Description:
    """Return the description of an event of a site."""
    facts, is_resolved = subject.facts, subject.state == "resolved"
    site = read_text(facts, "site", 100) or subject.subject
    describe_kind = _KINDS.get(subject.kind, _describe_silence)
    title, details, figures, labels = describe_kind(facts, site, is_resolved)
    number = read_number(facts, "site_id")
    return Description(
        title=cut_title(title),
        details=details,
        figures=figures,
        labels={"site": site, **labels},
        command="pharos sites" if number is None else f"pharos report {number}",
    )


_Parts = tuple[str, list[str], list[Figure], dict[str, str]]


def _describe_spike(facts: Mapping[str, Any], site: str, is_resolved: bool) -> _Parts:
    figures = list_figures(facts, "visitors in 10 min", "")
    if is_resolved:
        return f"Site {site} no longer has unusually many visitors", [], figures, {}
    usual, details = read_float(facts, "usual"), []
    if usual is not None:
        details.append(
            f"At this hour of the last seven days it had {usual:,.1f} visitors in 10 min on average."
        )
    value = read_float(facts, "value")
    count = "many visitors" if value is None else f"{value:,.0f} visitors in 10 min"
    return f"Site {site} has {count}, far more than usual", details, figures, {}


def _describe_silence(facts: Mapping[str, Any], site: str, is_resolved: bool) -> _Parts:
    if is_resolved:
        return f"Site {site} has visitors again", [], [], {}
    details = ["No event was received in the last 60 min."]
    if (usual := read_number(facts, "usual_visits")) is not None:
        details.append(f"On each of the last seven days, at least {usual} visits began in the same hour.")
    details.append("Check that the site is up, and that its pages still have the script.")
    return f"Site {site} has had no visitors for an hour", details, [], {}


def _describe_vital(facts: Mapping[str, Any], site: str, is_resolved: bool) -> _Parts:
    vital = read_text(facts, "vital", 10) or "Web Vital"
    name = _VITALS.get(vital, vital)
    value = write_fact(facts, "value")
    figures = list_figures(facts, f"{vital} (p75)")
    if is_resolved:
        details = explain_limits(facts, is_resolved=True)
        return f"{name} of site {site} is no longer poor", details, figures, {"vital": vital}
    details = ["For a quarter of the measurements of the last day it was at least this slow."]
    if vital == "CLS":
        details = ["For a quarter of the measurements of the last day pages shifted at least this much."]
    if (measurements := read_number(facts, "measurements")) is not None:
        details.append(f"{measurements:,} measurements were read.")
    title = f"{name} of site {site} is poor" + (f": {value}" if value else "")
    return title, details, figures, {"vital": vital}


_KINDS = {
    "site.spike": _describe_spike,
    "site.silence": _describe_silence,
    "site.vital": _describe_vital,
}
