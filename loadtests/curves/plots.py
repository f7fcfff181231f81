"""Draws the curves as SVG files for the documentation."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from loadtests.curves.points import CURVES, Results

PICTURES: Mapping[str, Sequence[str]] = {
    "curves-edge": ("edge-batch", "edge-keys", "edge-partitions", "edge-rates"),
    "curves-engines": ("broker-batch", "redis-keys", "insert-rows", "insert-time"),
    "curves-consumer": ("consumer-partitions", "consumer-batch", "receipt-look-up"),
    "curves-stored-rows": ("view-store", "view-report", "view-visits", "view-check"),
    "curves-heartbeats": ("heartbeat-ping", "heartbeat-scan", "heartbeat-due"),
}
"""The names of the curves in each picture, by the name of the picture."""

_PANEL = (4.6, 3.4)
_COLUMNS = 2
_MARKERS = "osD^v"
# If the highest value of a curve is this many times its lowest value, the y-axis is logarithmic.
_LARGE_RATIO = 20.0


def draw_pictures(results: Results, folder: Path, ending: str = "svg") -> list[Path]:
    """Draw each picture for which at least one curve was measured. Return the files."""
    # With these settings, the same points give the same bytes, and the text can be searched.
    matplotlib.rcParams.update({"svg.hashsalt": "pharos", "svg.fonttype": "none", "font.size": 9})
    files = []
    for name, curves in PICTURES.items():
        measured = [curve for curve in curves if results.lines(curve)]
        if measured:
            files.append(_draw(results, measured, folder / f"{name}.{ending}"))
    return files


def _draw(results: Results, curves: Sequence[str], file: Path) -> Path:
    # Draw three curves in one row, instead of two rows with an empty place.
    columns = len(curves) if len(curves) == 3 else min(_COLUMNS, len(curves))
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(columns * _PANEL[0], rows * _PANEL[1]), facecolor="white", layout="constrained")
    for number, curve in enumerate(curves, 1):
        _draw_curve(figure.add_subplot(rows, columns, number), results, curve)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return file


def _draw_curve(axes: Axes, results: Results, name: str) -> None:
    curve = CURVES[name]
    highest, lowest = 0.0, float("inf")
    for marker, line in zip(_MARKERS, results.lines(name), strict=False):
        values = results.values(name, line)
        axes.plot(list(values), list(values.values()), marker=marker, markersize=4, label=line)
        highest, lowest = max(highest, *values.values()), min(lowest, *values.values())
    axes.set_xscale("log")
    if lowest > 0 and highest / lowest > _LARGE_RATIO:
        axes.set_yscale("log")
        # Label the axis with plain numbers. Powers of ten alone would be too few labels.
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        # Let the axis start at zero, so that a flat curve looks flat.
        axes.set_ylim(0, 1.25 * highest)
    axes.set_title(curve.title, fontsize=10)
    axes.set_xlabel(curve.x)
    axes.set_ylabel(curve.y)
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8)
