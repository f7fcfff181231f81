"""`make curves`: results survive a round trip through a file, unmeasured parts are kept, and every measured curve is
drawn."""

import re
from pathlib import Path

from loadtests.bench.ingest_requests import spread_heartbeat_requests, spread_requests
from loadtests.curves.plots import PICTURES, draw_pictures
from loadtests.curves.points import CURVES, Point, Results, encode_results, keep_other_parts, read_results

_BATCHES = [Point("edge-batch", "Python alone", 100, 9.0), Point("edge-batch", "Python alone", 1, 300.0)]
_SCANS = [Point("heartbeat-scan", "none due", 1000, 0.1)]


def _results(date: str = "2026-11-27", *, quick: bool = False, **parts: list[Point]) -> Results:
    return Results(date, {"processor": "two cores"}, quick, parts)


def test_results_survive_a_round_trip(tmp_path: Path) -> None:
    results = _results(batches=_BATCHES, scans=_SCANS)
    file = tmp_path / "results.json"
    file.write_bytes(encode_results(results))
    assert read_results(file) == results
    assert results.values("edge-batch", "Python alone") == {1: 300.0, 100: 9.0}
    assert list(results.values("edge-batch", "Python alone")) == [1, 100]
    assert results.values("edge-batch", "no such line") == {}
    assert results.lines("heartbeat-scan") == ["none due"]


def test_parts_that_were_not_measured_again_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    new = _results("2026-11-28", scans=[Point("heartbeat-scan", "none due", 1000, 0.2)])
    assert keep_other_parts(new, file) == new
    file.write_bytes(encode_results(_results(quick=True, batches=_BATCHES, scans=_SCANS)))
    kept = keep_other_parts(new, file)
    assert kept.date == "2026-11-28"
    assert kept.quick, "a part of it was measured quickly"
    assert kept.values("edge-batch", "Python alone") == {1: 300.0, 100: 9.0}
    assert kept.values("heartbeat-scan", "none due") == {1000: 0.2}


def test_each_measured_curve_is_drawn_with_its_units(tmp_path: Path) -> None:
    (batches, scans) = draw_pictures(_results(batches=_BATCHES, scans=_SCANS), tmp_path)
    assert batches.name == "curves-edge.svg"
    assert "CPU µs an event" in batches.read_text()
    assert CURVES["edge-keys"].title not in batches.read_text()
    assert "CPU ms a second" in scans.read_text()
    drawn = {file.name: file.read_bytes() for file in (batches, scans)}
    draw_pictures(_results(batches=_BATCHES, scans=_SCANS), tmp_path)
    assert drawn == {file.name: file.read_bytes() for file in (batches, scans)}


def test_requests_take_the_keys_in_turn() -> None:
    make_request = spread_requests(["first", "second"], 2)
    for number in range(5):
        head, _, body = make_request(number).partition(b"\r\n\r\n")
        assert b"Authorization: Bearer %s\r\n" % [b"first", b"second"][number % 2] in head
        assert (found := re.search(rb"Content-Length: (\d+)", head))
        assert int(found[1]) == len(body)
        assert b'"bench-%010d"' % number in body


def test_each_heartbeat_gets_signals_with_its_own_key() -> None:
    make_request = spread_heartbeat_requests(["first", "second"])
    for number, (heartbeat, key) in enumerate([(1, b"first"), (2, b"second"), (1, b"first")]):
        request = make_request(number)
        assert b"POST /api/v1/heartbeats/%d HTTP/1.1" % heartbeat in request
        assert b"Bearer %s\r\n" % key in request


def test_pictures_have_curves_that_exist_once() -> None:
    shown = [curve for curves in PICTURES.values() for curve in curves]
    assert len(shown) == len(set(shown))
    assert set(shown) <= set(CURVES)
