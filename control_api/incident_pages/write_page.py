"""Writes the HTML of the page of an incident, and of a link that does not work."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from html import escape
from urllib.parse import quote

from control_api.incident_pages.incident_words import describe_incident, read_facts
from control_api.incident_pages.page_style import STYLE
from control_domain.notifications.incidents import FoundIncident
from control_domain.slugs import MAX_REASON_LENGTH
from notifications.incidents.apply_events import DEPLOYMENT_BEFORE
from notifications.render.words import to_line, write_duration, write_figure, write_time
from pipeline_contracts.alert_kinds import ALERT_KINDS
from pipeline_contracts.times import format_time

SILENCE_SECONDS = {3600: "1 hour", 4 * 3600: "4 hours", 86_400: "1 day", 7 * 86_400: "7 days"}
"""The lengths of silences that the form offers."""

_WORDS = {"critical": "Critical", "warning": "Warning", "info": "Info", "resolved": "Resolved"}
_MAX_DETAILS = 10


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """The content of the page."""

    found: FoundIncident
    account: str
    """The name of the account."""
    silenced_until: datetime | None
    signature: str
    now: datetime
    may_act: bool
    """False for a page without forms."""
    base: str
    """The relative path from the address of this response to the folder of the pages: empty, or `../`."""
    notice: str | None = None
    """The result of the form that was just sent, or the reason why it was refused."""


def write_incident_page(page: IncidentPage) -> str:
    """Return the page of an incident, with the forms that acknowledge and silence it while it is
    open."""
    incident = page.found.incident
    description = describe_incident(page.found)
    tone = "resolved" if incident.state == "resolved" else incident.severity
    body = [
        *([f'<section role="status"><p>{_line(page.notice, 300)}</p></section>'] if page.notice else []),
        f'<section class="{escape(tone)}" aria-labelledby="title">',
        f'<p class="state">{_WORDS.get(tone, "Info")}</p>',
        f'<h1 id="title">{_line(description.title, 200)}</h1>',
        f'<p class="soft">{escape(_write_since(page))}</p>',
        *(f"<p>{_line(detail, 400)}</p>" for detail in description.details[:_MAX_DETAILS]),
        "<dl>",
        *(f"<dt>{_line(name, 80)}</dt><dd>{_line(value, 300)}</dd>" for name, value in _list_facts(page)),
        "</dl>",
    ]
    if description.command is not None:
        body += [
            '<p class="soft">Look closer:</p>',
            f"<pre><code>{_line(description.command, 300)}</code></pre>",
        ]
    body.append("</section>")
    if incident.open_key is not None and page.may_act:
        body += [*_write_acknowledge(page), *_write_silence(page)]
    return _write_document(description.title, body)


def write_refusal(title: str, text: str) -> str:
    """Return the page of a link that does not work."""
    return _write_document(
        title, ["<section>", f"<h1>{escape(title)}</h1>", f"<p>{escape(text)}</p>", "</section>"]
    )


def _write_since(page: IncidentPage) -> str:
    incident = page.found.incident
    began = write_time(format_time(incident.started_at))
    if incident.state == "info":
        return began
    lasted = write_duration(((incident.resolved_at or page.now) - incident.started_at).total_seconds())
    if incident.resolved_at is not None:
        return f"From {began} to {write_time(format_time(incident.resolved_at))}, {lasted}"
    return f"Since {began}, for {lasted}"


def _list_facts(page: IncidentPage) -> Iterator[tuple[str, str]]:
    found, description = page.found, describe_incident(page.found)
    yield "Account", page.account
    if found.project is not None:
        yield "Project", found.project.slug
    if found.environment is not None:
        yield "Environment", found.environment.slug
    for name, value in description.labels.items():
        yield name[:1].upper() + name[1:], value
    for figure in description.figures:
        name, value = write_figure(figure)
        # An incident that has ended is shown with its figures from before the end.
        was = "was " if found.incident.state == "resolved" else ""
        yield name[:1].upper() + name[1:], was + value
    deployment = read_facts(found).get(DEPLOYMENT_BEFORE)
    if isinstance(deployment, dict) and "number" in deployment:
        revision = str(deployment.get("revision") or "")[:7]
        subject = str(deployment.get("subject") or "")
        yield (
            "Deployment before",
            " ".join(part for part in (f"#{deployment['number']}", revision, subject) if part),
        )
    incident = found.incident
    if incident.acknowledged_at is not None:
        by = "" if found.acknowledged_by is None else f" by {found.acknowledged_by.name}"
        yield "Acknowledged", write_time(format_time(incident.acknowledged_at)) + by
    if page.silenced_until is not None:
        yield "Silenced until", write_time(format_time(page.silenced_until))
    yield "Incident", incident.public_id


def _write_acknowledge(page: IncidentPage) -> Iterator[str]:
    if page.found.incident.acknowledged_at is not None:
        return
    yield '<section aria-labelledby="acknowledge">'
    yield '<h2 id="acknowledge">I am looking at it</h2>'
    yield "<p>No reminders follow. You will hear when it ends.</p>"
    yield f'<form method="post" action="{_address(page, "acknowledge")}">'
    yield _write_group_choice(page, "All open {family} incidents {where}")
    yield "<button>Acknowledge</button></form></section>"


def _write_silence(page: IncidentPage) -> Iterator[str]:
    yield '<section aria-labelledby="silence">'
    yield '<h2 id="silence">Not now</h2>'
    yield "<p>Reminders and changes wait until the silence ends. You will hear when the incident ends.</p>"
    yield f'<form method="post" action="{_address(page, "silence")}">'
    yield '<label>For<select name="seconds">'
    yield from (f'<option value="{seconds}">{text}</option>' for seconds, text in SILENCE_SECONDS.items())
    yield "</select></label>"
    yield (
        '<label>Reason, for others to read<input type="text" name="reason" '
        f'maxlength="{MAX_REASON_LENGTH}" autocomplete="off"></label>'
    )
    yield _write_group_choice(page, "All {family} incidents {where}, also new ones")
    yield "<button>Silence</button></form></section>"


def _write_group_choice(page: IncidentPage, text: str) -> str:
    family = ALERT_KINDS[page.found.incident.kind].family
    environment = page.found.environment
    where = "of the platform" if environment is None else f"in {to_line(environment.slug, 100)}"
    return (
        '<label class="choice"><input type="checkbox" name="group" value="1">'
        f"<span>{escape(text.format(family=family, where=where))}</span></label>"
    )


def _address(page: IncidentPage, action: str) -> str:
    public_id = page.found.incident.public_id
    return escape(f"{page.base}{quote(public_id)}/{action}?s={quote(page.signature)}")


def _line(text: str, limit: int) -> str:
    return escape(to_line(text, limit))


def _write_document(title: str, body: list[str]) -> str:
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="robots" content="noindex, nofollow">',
            f"<title>{_line(title, 200)} · Pharos</title>",
            '<link rel="icon" href="data:,">',
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            *body,
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )
