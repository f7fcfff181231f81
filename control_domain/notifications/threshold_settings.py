"""The settings of thresholds, and their rules."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from control_domain.slugs import is_name
from control_domain.tables.notifications import AlertThreshold
from pipeline_contracts.alert_kinds import ALERT_KINDS, Severity
from pipeline_contracts.errors import FieldError, invalid_fields

ThresholdKind = Literal["queue.wait", "queue.size", "service.error_rate", "service.latency", "metric.value"]
THRESHOLD_KINDS: tuple[ThresholdKind, ...] = get_args(ThresholdKind)
Aggregation = Literal["avg", "min", "max", "sum", "last"]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
Direction = Literal["above", "below"]

MAX_TARGET_LENGTH = 255
MAX_VALUE = 1e15
MIN_WINDOW_SECONDS = 60
MAX_WINDOW_SECONDS = 3600
MAX_PENDING_SECONDS = 86_400
DEFAULT_WINDOW_SECONDS = 300
DEFAULT_PENDING_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSettings:
    """The settings of a threshold. `recovery` None means the threshold itself, `severity` None the severity of the
    kind."""

    name: str
    kind: ThresholdKind
    target: str
    service: str | None = None
    aggregation: Aggregation = "avg"
    direction: Direction = "above"
    threshold: float
    recovery: float | None = None
    window_seconds: int = DEFAULT_WINDOW_SECONDS
    pending_seconds: int = DEFAULT_PENDING_SECONDS
    severity: Severity | None = None
    enabled: bool = True

    @property
    def measured(self) -> tuple[object, ...]:
        """The settings that say what is measured. If one of them changes, the threshold is evaluated from the
        start."""
        return (self.kind, self.target, self.service, self.aggregation, self.direction)

    def columns(self) -> dict[str, Any]:
        """Return the columns of checked settings."""
        return {
            "name": self.name,
            "kind": self.kind,
            "target": self.target,
            "service": self.service,
            "aggregation": self.aggregation,
            "is_above": self.direction == "above",
            "threshold": self.threshold,
            "recovery": self.recovery,
            "window_seconds": self.window_seconds,
            "pending_seconds": self.pending_seconds,
            "severity": self.severity,
            "enabled": self.enabled,
        }


def read_threshold_settings(row: AlertThreshold) -> ThresholdSettings:
    """Return the settings of a row."""
    return ThresholdSettings(
        name=row.name,
        kind=row.kind,  # type: ignore[arg-type]
        target=row.target,
        service=row.service,
        aggregation=row.aggregation,  # type: ignore[arg-type]
        direction="above" if row.is_above else "below",
        threshold=row.threshold,
        recovery=row.recovery,
        window_seconds=row.window_seconds,
        pending_seconds=row.pending_seconds,
        severity=row.severity,  # type: ignore[arg-type]
        enabled=row.enabled,
    )


def check_threshold(settings: ThresholdSettings) -> ThresholdSettings:
    """Return complete settings, with trimmed texts. Raises `InvalidInput` with every invalid field."""
    settings = replace(
        settings,
        name=settings.name.strip(),
        target=settings.target.strip(),
        service=None if settings.service is None else settings.service.strip(),
        threshold=float(settings.threshold),
        recovery=float(settings.threshold if settings.recovery is None else settings.recovery),
    )
    if errors := list(_find_faults(settings)):
        raise invalid_fields(errors)
    return replace(settings, severity=settings.severity or ALERT_KINDS[settings.kind].severity)


def _find_faults(settings: ThresholdSettings) -> Iterator[FieldError]:
    if not is_name(settings.name):
        yield FieldError("name", "must be 1 to 100 printable characters")
    for field, text in (("target", settings.target), ("service", settings.service)):
        if text is not None and not (1 <= len(text) <= MAX_TARGET_LENGTH and text.isprintable()):
            yield FieldError(field, f"must be 1 to {MAX_TARGET_LENGTH} printable characters")
    if settings.kind not in THRESHOLD_KINDS:
        yield FieldError("kind", f"must be one of {', '.join(THRESHOLD_KINDS)}")
        return
    if settings.kind != "metric.value":
        if settings.service is not None:
            yield FieldError("service", "is only for metric.value: `target` names the service or the queue")
        if settings.aggregation != "avg":
            yield FieldError("aggregation", "is only for metric.value")
        if settings.threshold < 0:
            yield FieldError("threshold", "must not be negative")
    if settings.kind == "service.error_rate" and settings.threshold > 100:
        yield FieldError("threshold", "must be a percentage, from 0 to 100")
    for field, value in (("threshold", settings.threshold), ("recovery", settings.recovery)):
        if value is None or not -MAX_VALUE <= value <= MAX_VALUE:
            yield FieldError(field, "must be a number from -1e15 to 1e15")
    recovery = settings.threshold if settings.recovery is None else settings.recovery
    if settings.direction == "above" and recovery > settings.threshold:
        yield FieldError("recovery", "must not be above the threshold: the incident could not end")
    if settings.direction == "below" and recovery < settings.threshold:
        yield FieldError("recovery", "must not be below the threshold: the incident could not end")
    if not MIN_WINDOW_SECONDS <= settings.window_seconds <= MAX_WINDOW_SECONDS:
        yield FieldError("window_seconds", f"must be {MIN_WINDOW_SECONDS} to {MAX_WINDOW_SECONDS}")
    if not 0 <= settings.pending_seconds <= MAX_PENDING_SECONDS:
        yield FieldError("pending_seconds", f"must be 0 to {MAX_PENDING_SECONDS}")
