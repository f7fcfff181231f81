"""Collect requests over HTTP: accepted, dropped and refused events, and their records in the log."""

import gzip
import json
import secrets
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from pipeline_contracts import topics
from pipeline_contracts.client_address import ClientAddresses, parse_networks
from pipeline_contracts.collected import decode_collect_meta, decode_dropped
from pipeline_contracts.rate_limits import RateLimit
from tests.ingest_edge.conftest import BROWSER, RunningEdge, StartEdge

_BOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
_PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.5 Mobile/15E148 Safari/604.1"
)
_TABLET = (
    "Mozilla/5.0 (Linux; Android 14; SM-X710) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 "
    "Safari/537.36"
)


# Placeholder in a body for a number that Python's encoder cannot write.
_HUGE = "a huge number"


def view(path: str = "/", **rest: Any) -> dict[str, Any]:
    return {"id": str(uuid.uuid4()), "type": "pageview", "path": path, **rest}


def event(name: str, **properties: Any) -> dict[str, Any]:
    return {**view(), "type": "event", "properties": {"name": name, **properties}}


async def test_a_page_view_is_accepted_and_in_the_log_without_address_and_user_agent(
    start_edge: StartEdge,
) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    answer = await edge.collect(tracker_id, [view("/products", referrer_host="www.google.no")])
    assert answer.status == 202
    assert answer.document() == {"data": {"accepted": 1, "dropped": 0}}
    ((meta, collected),) = await edge.collected()
    (one,) = collected.events
    assert (one.path, one.source, one.is_event) == ("/products", "Google", False)
    assert (one.device, one.browser, one.os) == ("Desktop", "Chrome", "Linux")
    assert one.visitor and abs(meta.received_ms - one.occurred_ms) == 0
    (record,) = await edge.appended(topics.PAGEVIEWS)
    whole = record.key + record.meta + record.value
    assert b"127.0.0.1" not in whole and b"AppleWebKit" not in whole and BROWSER.encode() not in whole


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "text/plain;charset=UTF-8", "application/json", "Application/JSON; charset=utf-8"],
)
async def test_json_is_accepted_as_text_too(content_type: str, start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    answer = await edge.collect(tracker_id, [view()], Content_Type=content_type)
    assert answer.status == 202


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "multipart/form-data", "text/html"]
)
async def test_page_can_read_the_refusal_of_other_content_types(
    content_type: str, start_edge: StartEdge
) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    answer = await edge.collect(tracker_id, [view()], Content_Type=content_type)
    assert answer.status == 415
    assert answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"", [""]),
        (b"[]", ["events"]),
        (b"{}", ["events"]),
        (b'{"events": []}', ["events"]),
        (b'{"events": 1}', ["events"]),
        (b'{"events": [1]}', ["events[0]"]),
        (b'{"events": [{}]}', ["events[0].id", "events[0].type", "events[0].path"]),
        (
            json.dumps(
                {"events": [7, {**view(), "id": "x", "type": "click", "occurred_at": "today"}]}
            ).encode(),
            ["events[0]", "events[1].id", "events[1].type", "events[1].occurred_at"],
        ),
        (json.dumps({"events": [view("/" + "x" * 2048)]}).encode(), ["events[0].path"]),
        (
            json.dumps({"events": [view(utm_source=1, browser=[], properties=[])]}).encode(),
            ["events[0].utm_source", "events[0].browser", "events[0].properties"],
        ),
        (
            json.dumps({"events": [event("x", **{f"p{n}": n for n in range(8)})]}).encode(),
            ["events[0].properties"],
        ),
        (json.dumps({"events": [view() for _ in range(21)]}).encode(), ["events"]),
        (b'{"events": ' + b"[" * 100_000, [""]),
    ],
)
async def test_invalid_fields_are_listed_and_nothing_is_stored(
    body: bytes, fields: list[str], start_edge: StartEdge
) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    answer = await edge.collect(tracker_id, body)
    assert (answer.status, answer.fields()) == (422, fields)
    assert answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"
    assert await edge.collected() == []


async def test_valid_events_are_stored_and_invalid_ones_counted(
    start_edge: StartEdge,
) -> None:
    """An invalid event does not affect a purchase in the same request."""
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    broken = {
        "invalid_id": [{**view(), "id": "x"}, {"type": "pageview", "path": "/"}],
        "invalid_type": [{**view(), "type": "click"}],
        "invalid_path": [view("/" + "x" * 2048), {**view(), "path": None}],
        "invalid_occurred_at": [view(occurred_at="today")],
        "invalid_utm_source": [view(utm_source=1, browser=[])],
        "invalid_properties": [event("x", **{f"p{n}": n for n in range(8)}), event("x", huge=_HUGE)],
        "invalid_event": [7, "x", None, []],
    }
    purchase = event("purchase", revenue="29.90", currency="EUR", note="cut \ud83d off", **{"\udc00": 2**70})
    sent = [one for events in broken.values() for one in events]
    body = json.dumps({"events": [*sent, purchase]}).replace(f'"{_HUGE}"', "1e400").encode()
    for _ in range(2):
        answer = await edge.collect(tracker_id, body)
        assert (answer.status, answer.document()) == (202, {"data": {"accepted": 1, "dropped": len(sent)}})
    (stored,) = (await edge.collected())[0][1].events
    assert (stored.name, stored.revenue, stored.currency) == ("purchase", 29_900_000, "EUR")
    kept = {"revenue": "29.90", "currency": "EUR", "note": "cut \ufffd off", "\ufffd": 2**70}
    assert json.loads(stored.properties) == kept
    # A body without any valid event is refused, and its events are counted too.
    refused = await edge.collect(tracker_id, [{**view(), "id": "x"}])
    assert (refused.status, refused.fields()) == (422, ["events[0].id"])
    await edge.dropped.flush()
    counts = decode_dropped((await edge.appended(topics.PAGEVIEWS))[-1].value).counts
    assert counts == {reason: 2 * len(events) + (reason == "invalid_id") for reason, events in broken.items()}


async def test_properties_of_every_depth_are_stored_or_refused(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    statuses = []
    # Around the depths at which the decoder, or the encoder after it, reaches Python's recursion limit.
    for levels in (60, *range(850, 1000, 5)):
        body = json.dumps({"events": [event("x", deep="@")]}).replace('"@"', "[" * levels + "]" * levels)
        statuses.append((await edge.collect(tracker_id, body.encode())).status)
    assert statuses[0] == 202 and statuses == sorted(statuses) and set(statuses) == {202, 422}


async def test_twenty_events_with_null_and_unknown_members_are_accepted(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    events = [view(f"/{n}", referrer_host=None, properties=None, colour="red") for n in range(20)]
    body = gzip.compress(json.dumps({"events": events}).encode())
    answer = await edge.collect(tracker_id, body, Content_Encoding="gzip")
    assert answer.document() == {"data": {"accepted": 20, "dropped": 0}}


async def test_a_body_over_the_limit_is_refused(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    answer = await edge.collect(tracker_id, b" " * (256 * 1024 + 1))
    assert answer.status == 413


async def test_other_methods_are_refused(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    answer = await edge.request("GET", f"/api/v1/collect/{tracker_id}")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST, OPTIONS")


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"User_Agent": _BOT}, "bot"),
        ({"User_Agent": "curl/8.5.0"}, "bot"),
        ({"User_Agent": ""}, "bot"),
        ({"Sec_GPC": "1"}, "opted_out"),
        ({"Sec_Purpose": "prefetch;prerender"}, "prefetch"),
        ({"Purpose": "prefetch"}, "prefetch"),
    ],
)
async def test_dropped_events_are_counted_by_reason(
    headers: dict[str, str], reason: str, start_edge: StartEdge
) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    for _ in range(2):
        answer = await edge.collect(tracker_id, [view(), view()], **headers)
        assert answer.status == 202
        assert answer.document() == {"data": {"accepted": 0, "dropped": 2}}
    assert await edge.appended(topics.PAGEVIEWS) == []
    await edge.dropped.flush()
    (record,) = await edge.appended(topics.PAGEVIEWS)
    assert decode_collect_meta(record.meta).kind == "dropped"
    assert decode_dropped(record.value).counts == {reason: 4}


@pytest.mark.parametrize(
    ("user_agent", "told"),
    [
        (BROWSER, ("Desktop", "Chrome", "Linux")),
        (_PHONE, ("Mobile", "Safari", "iOS")),
        (_TABLET, ("Tablet", "Chrome", "Android")),
    ],
)
async def test_device_is_derived_from_the_user_agent(
    user_agent: str, told: tuple[str, ...], start_edge: StartEdge
) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    await edge.collect(
        tracker_id, [view(), view(device="tablet", browser="Ladybird", os="Redox")], User_Agent=user_agent
    )
    ((_, collected),) = await edge.collected()
    plain, as_sent = collected.events
    assert (plain.device, plain.browser, plain.os) == told
    assert (as_sent.device, as_sent.browser, as_sent.os) == ("Tablet", "Ladybird", "Redox")


async def test_implausible_time_becomes_the_time_of_receipt(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    now = datetime.now(UTC)
    offsets = [
        timedelta(hours=-23, minutes=-59),
        timedelta(hours=-25),
        timedelta(minutes=4),
        timedelta(minutes=6),
    ]
    await edge.collect(tracker_id, [view(occurred_at=(now + offset).isoformat()) for offset in offsets])
    ((meta, collected),) = await edge.collected()
    late, too_late, ahead, too_far_ahead = [one.occurred_ms - meta.received_ms for one in collected.events]
    assert late < -23 * 3_600_000 and too_late == 0 and ahead > 200_000 and too_far_ahead == 0


async def test_properties_are_stored_by_kind_of_event(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    await edge.collect(
        tracker_id,
        [
            event("Outbound Link: Click", url="https://a.example/x?y=1"),
            event("File Download", url="https://shop.example/a.pdf"),
            event("Engagement", visible_seconds=12.3456),
            event("Web Vital", metric="lcp", value=1830.5, id="v4-17"),
            event("purchase", revenue="29.90", currency="eur", plan="pro"),
            event("404"),
            event("Web Vital", metric="FID", value=-1, id=""),
            event("purchase", revenue=True, currency="EURO"),
        ],
    )
    ((_, collected),) = await edge.collected()
    link, file, engagement, vital, purchase, missing, bad_vital, bad_purchase = collected.events
    assert (link.url, file.url) == ("https://a.example/x?y=1", "https://shop.example/a.pdf")
    assert engagement.visible_ms == 12_346
    assert (vital.metric, vital.value) == ("LCP", 1830.5) and vital.vital
    assert (purchase.revenue, purchase.currency) == (29_900_000, "EUR")
    assert json.loads(purchase.properties) == {"revenue": "29.90", "currency": "eur", "plan": "pro"}
    assert missing.name == "404"
    assert (bad_vital.metric, bad_vital.vital) == ("", 0)
    assert (bad_purchase.revenue, bad_purchase.currency) == (0, "")
    assert b"v4-17" not in msgspec.msgpack.encode(collected)


async def test_invalid_revenue_is_ignored_and_counted(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    ignored = [
        {"revenue": "12,50", "currency": "EUR"},
        {"revenue": "€12.50", "currency": "EUR"},
        {"revenue": 12.5},
        {"revenue": 12.5, "currency": "EURO"},
        {"revenue": True, "currency": "EUR"},
        {"revenue": 1e300, "currency": "EUR"},
        {"revenue": [1], "currency": "EUR"},
    ]
    fine = [
        {"revenue": "12.50", "currency": "EUR"},
        {"revenue": 0, "currency": "EUR"},
        {"revenue": None},
        {"currency": "EUR"},
        {},
    ]
    events = [event("purchase", **properties) for properties in [*ignored, *fine]]
    # A page view and the tracker's own events have no revenue.
    rest = [view(properties={"revenue": "12,50"}), event("File Download", url="/a.pdf", revenue="12,50")]
    answer = await edge.collect(tracker_id, [*events, *rest])
    assert answer.document() == {"data": {"accepted": len(events) + 2, "dropped": 0}}
    ((_, collected),) = await edge.collected()
    stored = [(one.revenue, one.currency) for one in collected.events]
    nothing = (0, "")
    assert (
        stored == [nothing] * 7 + [(12_500_000, "EUR"), (0, "EUR"), nothing, nothing, nothing] + [nothing] * 2
    )
    await edge.dropped.flush()
    record = (await edge.appended(topics.PAGEVIEWS))[-1]
    assert decode_dropped(record.value).counts == {"revenue_ignored": 7}


async def _visitors(edge: RunningEdge) -> list[int]:
    return [one.visitor for _, collected in await edge.collected() for one in collected.events]


async def test_visitors_differ_by_site_address_and_user_agent(start_edge: StartEdge) -> None:
    edge = await start_edge(trusted_proxies="127.0.0.1")
    shop, blog = await edge.open_site("https://shop.example"), await edge.open_site("https://shop.example")
    # All on one day, even if midnight passes during the test.
    now = datetime.now(UTC).isoformat()
    for tracker_id, address, user_agent in [
        (shop, "203.0.113.7", BROWSER),
        (shop, "203.0.113.7", BROWSER),
        (shop, "203.0.113.8", BROWSER),
        (shop, "203.0.113.7", _PHONE),
        (blog, "203.0.113.7", BROWSER),
    ]:
        await edge.collect(
            tracker_id, [view(occurred_at=now)], X_Forwarded_For=address, User_Agent=user_agent
        )
    first, again, *others = await _visitors(edge)
    assert first == again
    assert len({first, *others}) == 4


async def test_forwarded_line_of_the_caller_is_not_believed(start_edge: StartEdge) -> None:
    edge = await start_edge(trusted_proxies="127.0.0.1")
    tracker_id = await edge.open_site("https://shop.example")
    now = datetime.now(UTC).isoformat()
    for forged in ("198.51.100.1", "198.51.100.2"):
        headers = [
            ("X-Forwarded-For", forged),
            ("X-Forwarded-For", "203.0.113.7"),
            ("Origin", "https://shop.example"),
            ("Content-Type", "text/plain"),
            ("User-Agent", BROWSER),
        ]
        body = json.dumps({"events": [view(occurred_at=now)]}).encode()
        sent = await edge.request("POST", f"/api/v1/collect/{tracker_id}", data=body, headers=headers)
        assert sent.status == 202
    first, second = await _visitors(edge)
    assert first == second


async def test_visitor_and_session_ids_of_the_page_are_hashed(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    await edge.collect(
        tracker_id, [view(visitor="ann@example.org", session="s-1"), view(visitor="bob"), view()]
    )
    ((_, collected),) = await edge.collected()
    ann, bob, nobody = collected.events
    assert len({ann.visitor, bob.visitor, nobody.visitor}) == 3
    assert ann.session and not bob.session
    assert b"ann@example.org" not in msgspec.msgpack.encode(collected)


@pytest.mark.parametrize(
    ("trusted", "forwarded", "believed"),
    [
        ("", "203.0.113.7", None),
        ("10.0.0.0/8", "203.0.113.7", None),
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.0/8, 10.0.0.0/8", "198.51.100.1, 203.0.113.7, 10.1.2.3", "203.0.113.7"),
        ("127.0.0.1", "203.0.113.7:4711", "203.0.113.7"),
        ("127.0.0.1", "198.51.100.1, not an address", None),
        ("127.0.0.1", "2001:db8::7", "2001:db8::7"),
    ],
)
async def test_only_trusted_proxies_are_believed(
    trusted: str, forwarded: str, believed: str | None, start_edge: StartEdge
) -> None:
    edge = await start_edge(trusted_proxies=trusted)
    behind = await start_edge(trusted_proxies="127.0.0.1")
    for one, sent in ((edge, forwarded), (behind, believed)):
        tracker_id = await one.open_site("https://shop.example")
        headers = {} if sent is None else {"X_Forwarded_For": sent}
        assert (await one.collect(tracker_id, [view()], **headers)).status == 202
    # Each edge has its own salts, so the test compares the address that is hashed.
    found = ClientAddresses(parse_networks(trusted)).find("127.0.0.1", forwarded)
    assert found == (believed or "127.0.0.1")


def test_ipv4_address_of_a_dual_stack_socket_is_unmapped() -> None:
    addresses = ClientAddresses(parse_networks("127.0.0.1"))
    assert addresses.find("::ffff:203.0.113.7", None) == "203.0.113.7"
    assert addresses.find("::ffff:127.0.0.1", "::FFFF:203.0.113.7") == "203.0.113.7"
    assert addresses.find("2001:db8::ffff:7", None) == "2001:db8::ffff:7"
    assert addresses.find(None, None) == ""


async def test_country_comes_from_the_header_of_a_trusted_proxy(start_edge: StartEdge) -> None:
    edge = await start_edge(trusted_proxies="127.0.0.1", country_header="CF-IPCountry")
    tracker_id = await edge.open_site("https://shop.example")
    for told in ("no", "XX", "Norway", ""):
        await edge.collect(tracker_id, [view()], CF_IPCountry=told)
    assert [collected.country for _, collected in await edge.collected()] == ["NO", "", "", ""]
    untrusting = await start_edge(country_header="CF-IPCountry")
    tracker_id = await untrusting.open_site("https://shop.example")
    await untrusting.collect(tracker_id, [view()], CF_IPCountry="NO")
    assert [collected.country for _, collected in await untrusting.collected()] == [""]


async def test_page_can_read_the_429_over_the_rate(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example", limit=RateLimit(0.001, 2))
    assert (await edge.collect(tracker_id, [view(), view()])).status == 202
    answer = await edge.collect(tracker_id, [view()])
    assert answer.status == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.headers["Access-Control-Expose-Headers"] == "Retry-After"
    assert answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"
    # The account's servers have a separate rate.
    key = await edge.issue_key(account_id="acc_1", limit=RateLimit(0.001, 2))
    batch = {"batch_id": "b-1", "events": [{"type": "log"}] * 2}
    assert (await edge.post(batch, {"Authorization": f"Bearer {key}"})).status == 202


async def test_full_log_is_503_and_no_event_is_reported_as_accepted(start_edge: StartEdge) -> None:
    edge = await start_edge()
    tracker_id = await edge.open_site("https://shop.example")
    await edge.fill_disk()
    answer = await edge.collect(tracker_id, [event("x", text=secrets.token_hex(90_000))])
    assert answer.status == 503
    assert answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"
    await edge.free_disk()
    assert (await edge.collect(tracker_id, [view()])).status == 202
