"""Renders a message as the HTML of an e-mail: 600 px wide, narrower on phones, light and dark, without images or
anything else to load.

Styles are inline, because many mail clients drop style sheets. The style sheet only adds dark mode and the layout for
phones.
"""

from collections.abc import Iterator
from html import escape

from notifications.message import Message
from notifications.render.view import IncidentView, MessageView, Tone, view_message

_FONT = "font-family:-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"
_MONO = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
_COLORS: dict[Tone, tuple[str, str, str]] = {
    "critical": ("#b42318", "#fef3f2", "#b42318"),
    "warning": ("#b54708", "#fffaeb", "#b54708"),
    "info": ("#175cd3", "#eff8ff", "#175cd3"),
    "resolved": ("#067647", "#ecfdf3", "#067647"),
}
"""Colors by tone: the bar, the background of the label, and the text of the label."""
_SHEET = """
:root { color-scheme: light dark; supported-color-schemes: light dark; }
@media (max-width: 620px) {
  .page { padding: 0 !important; }
  .card { border-radius: 0 !important; border-left: 0 !important; border-right: 0 !important; }
  .pad { padding-left: 20px !important; padding-right: 20px !important; }
  .button { display: block !important; margin-right: 0 !important; text-align: center !important; }
}
@media (prefers-color-scheme: dark) {
  .page { background: #0c111d !important; }
  .card { background: #161b26 !important; border-color: #333741 !important; }
  .text { color: #f5f5f6 !important; }
  .muted { color: #a5abb8 !important; }
  .line { border-color: #333741 !important; }
  .code { background: #0c111d !important; color: #f5f5f6 !important; border-color: #333741 !important; }
  .plain { background: #161b26 !important; color: #f5f5f6 !important; border-color: #61646c !important; }
  .main { background: #f5f5f6 !important; color: #0c111d !important; border-color: #f5f5f6 !important; }
  .critical { background: #55160c !important; color: #fecdca !important; }
  .warning { background: #4e1d09 !important; color: #fedf89 !important; }
  .info { background: #102a56 !important; color: #b2ddff !important; }
  .resolved { background: #053321 !important; color: #abefc6 !important; }
}
"""


def render_html(message: Message) -> str:
    """Return the message as HTML."""
    view = view_message(message)
    bar = _COLORS[view.tone][0]
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="supported-color-schemes" content="light dark">',
        f"<title>{escape(view.subject)}</title><style>{_SHEET}</style></head>",
        '<body class="page" style="margin:0;padding:0;background:#f2f4f7">',
        _write_preview(view),
        '<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" class="page" '
        'style="background:#f2f4f7;padding:24px 12px"><tr><td align="center">',
        '<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" class="card" '
        'style="max-width:600px;background:#ffffff;border:1px solid #e4e7ec;border-radius:10px;'
        'overflow:hidden;text-align:left">',
        f'<tr><td style="height:4px;line-height:4px;font-size:0;background:{bar}">&nbsp;</td></tr>',
        f'<tr><td class="pad" style="padding:24px 28px 20px;{_FONT}">',
        *_write_head(view),
        "</td></tr>",
        *(
            part
            for incident in view.incidents
            for part in _write_incident(incident, is_single=view.is_single)
        ),
        *_write_end(view, message),
        "</table></td></tr></table></body></html>\n",
    ]
    return "\n".join(parts)


def _write_preview(view: MessageView) -> str:
    """Return the hidden text that mail clients show in lists, next to the subject."""
    first = view.incidents[0] if view.incidents else None
    words = " ".join(view.notes[:1]) if first is None else ". ".join([first.since, *first.details[:1]])
    return f'<div style="display:none;max-height:0;overflow:hidden">{escape(words)}</div>'


def _write_head(view: MessageView) -> Iterator[str]:
    yield _write_label(view.word, view.tone, 13)
    yield (
        '<h1 class="text" style="margin:12px 0 8px;font-size:22px;line-height:1.3;font-weight:600;color:#101828;'
        f'overflow-wrap:anywhere">{escape(view.title)}</h1>'
    )
    place = " &nbsp;·&nbsp; ".join(
        f'{escape(name)} <b class="text" style="font-weight:600;color:#344054">{escape(value)}</b>'
        for name, value in view.where
    )
    yield _write_line(place)
    for note in view.notes:
        yield _write_line(escape(note), "text", "#344054", "10px 0 0")


def _write_incident(incident: IncidentView, *, is_single: bool) -> Iterator[str]:
    yield (
        f'<tr><td class="pad line" style="padding:16px 28px;border-top:1px solid #e4e7ec;{_FONT};font-size:14px;'
        'line-height:1.5">'
    )
    if not is_single:
        title = escape(incident.title)
        if incident.url:
            title = f'<a class="text" href="{escape(incident.url)}" style="color:#101828">{title}</a>'
        yield (
            '<div class="text" style="font-size:16px;font-weight:600;color:#101828;margin-bottom:4px;'
            f'overflow-wrap:anywhere">{_write_label(incident.word, incident.tone, 12)}&nbsp; {title}</div>'
        )
    yield _write_line(escape(incident.since))
    for detail in incident.details:
        yield _write_line(escape(detail), "text", "#344054", "6px 0 0")
    if incident.facts:
        yield (
            '<table role="presentation" cellpadding="0" cellspacing="0" border="0" '
            'style="margin-top:10px;font-size:14px;line-height:1.5">'
        )
        for name, value in incident.facts:
            yield (
                '<tr><td class="muted" width="124" valign="top" style="padding:2px 16px 2px 0;color:#667085">'
                f'{escape(name)}</td><td class="text" valign="top" style="padding:2px 0;color:#101828;'
                f'overflow-wrap:anywhere">{escape(value)}</td></tr>'
            )
        yield "</table>"
    if incident.command:
        yield (
            f'<div class="code" style="margin-top:12px;padding:8px 12px;{_MONO};font-size:13px;color:#101828;'
            'background:#f9fafb;border:1px solid #e4e7ec;border-radius:6px;overflow-wrap:anywhere">'
            f"{escape(incident.command)}</div>"
        )
    yield f'<div class="muted" style="margin-top:8px;font-size:12px;color:#667085">{escape(incident.id)}</div>'
    yield "</td></tr>"


def _write_end(view: MessageView, message: Message) -> Iterator[str]:
    row = f'<tr><td class="pad line" style="padding:16px 28px;border-top:1px solid #e4e7ec;{_FONT}">'
    if view.more:
        yield f"{row}{_write_line(escape(view.more), 'text', '#344054')}</td></tr>"
    if view.links:
        yield row
        for position, link in enumerate(view.links):
            kind, colors = (
                ("main", "background:#101828;color:#ffffff;border:1px solid #101828")
                if position == 0
                else ("plain", "background:#ffffff;color:#344054;border:1px solid #d0d5dd")
            )
            yield (
                f'<a class="button {kind}" href="{escape(link.url)}" style="display:inline-block;margin:4px 8px 4px 0;'
                f"padding:9px 16px;{colors};border-radius:8px;font-size:14px;font-weight:600;"
                f'text-decoration:none">{escape(link.text)}</a>'
            )
        yield "</td></tr>"
    yield (
        f"{row}"
        + _write_line(f"Sent by Pharos · {escape(message.id)} · {escape(message.group_id)}", size=12)
        + "</td></tr>"
    )


def _write_label(word: str, tone: Tone, size: int) -> str:
    _, background, color = _COLORS[tone]
    return (
        f'<span class="{tone}" style="display:inline-block;padding:2px 10px;border-radius:999px;'
        f'font-size:{size}px;font-weight:600;background:{background};color:{color}">{escape(word)}</span>'
    )


def _write_line(
    html: str, kind: str = "muted", color: str = "#667085", margin: str = "0", size: int = 14
) -> str:
    """Return a paragraph. `html`: its content, which is already escaped."""
    return (
        f'<div class="{kind}" style="margin:{margin};font-size:{size}px;line-height:1.5;color:{color};'
        f'overflow-wrap:anywhere">{html}</div>'
    )
