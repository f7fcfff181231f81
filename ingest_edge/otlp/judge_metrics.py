"""Which data points are taken."""

from collections.abc import Sequence

from ingest_edge.limits import Limits
from ingest_edge.otlp.verdict import Verdict
from pipeline_contracts.otlp.metrics import DataPoint, Metric, MetricsRequest, NumberPoint

NO_RECORDED_VALUE = 1
"""DataPointFlags: the point says that there was nothing to record; it has no value on purpose."""


def judge_metrics(request: MetricsRequest, _size: int, _limits: Limits) -> Verdict:
    """A data point needs a time and a value of its kind."""
    verdict = Verdict()
    for _, _, metrics in request.by_scope():
        for metric in metrics:
            for _, data in metric.data_by_kind():
                _judge_points(metric, data.dataPoints or (), verdict)
    return verdict


def _judge_points(metric: Metric, points: Sequence[DataPoint], verdict: Verdict) -> None:
    named = ""
    for point in points:
        if not point.timeUnixNano:
            fault = "it has no timeUnixNano"
        elif not _has_value(point) and not (point.flags or 0) & NO_RECORDED_VALUE:
            fault = "it has no value of its kind"
        else:
            verdict.accept(1)
            continue
        # Made once: a long name would otherwise be written anew for each of many points.
        named = named or f"data point of {metric.name or ''!r:.60}"
        verdict.reject(f"{named}: {fault}")


def _has_value(point: DataPoint) -> bool:
    # A count of 0 does not show, in JSON as in protobuf: the other kinds always have a value.
    return not isinstance(point, NumberPoint) or point.asDouble is not None or point.asInt is not None
