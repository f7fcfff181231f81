"""Limits the size of a message that is sent as JSON, because a receiver may refuse bodies of megabytes."""

from collections.abc import Mapping

from msgspec.structs import replace

from notifications.message import MAX_LISTED, Figure, ListedIncident, Message

_MAX_TEXT = 500
_MAX_ITEMS = 10


def bound_message(message: Message) -> Message:
    """Return the message with at most 10 details, figures and labels for each incident, and with texts of at
    most 500 characters. Its JSON is then smaller than 300 KB."""
    return replace(
        message,
        title=message.title[:_MAX_TEXT],
        account=message.account[:_MAX_TEXT],
        incidents=[_bound_incident(incident) for incident in message.incidents[:MAX_LISTED]],
    )


def _bound_incident(incident: ListedIncident) -> ListedIncident:
    deployment = incident.deployment
    return replace(
        incident,
        title=incident.title[:_MAX_TEXT],
        details=[detail[:_MAX_TEXT] for detail in incident.details[:_MAX_ITEMS]],
        figures=[_bound_figure(figure) for figure in incident.figures[:_MAX_ITEMS]],
        labels=_bound_labels(incident.labels),
        deployment=None
        if deployment is None
        else replace(
            deployment,
            revision=deployment.revision and deployment.revision[:_MAX_TEXT],
            subject=deployment.subject and deployment.subject[:_MAX_TEXT],
        ),
        command=incident.command and incident.command[:_MAX_TEXT],
    )


def _bound_figure(figure: Figure) -> Figure:
    return replace(figure, name=figure.name[:_MAX_TEXT], unit=figure.unit[:_MAX_TEXT])


def _bound_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {name[:_MAX_TEXT]: value[:_MAX_TEXT] for name, value in list(labels.items())[:_MAX_ITEMS]}
