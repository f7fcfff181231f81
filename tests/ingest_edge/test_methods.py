"""Methods, `HEAD`, and the headers `Expect: 100-continue` and `Server`."""

import asyncio

import pytest

BATCH = b'{"batch_id":"b-1","events":[{"type":"log"}]}'
ALLOWED = {
    "/api/v1/ingest": "POST",
    "/api/v1/heartbeats/1": "POST",
    "/api/v1/queues/1/snapshots": "POST",
    "/api/v1/queues/1/workers": "POST",
    "/api/v1/collect/sit_1": "POST, OPTIONS",
    "/api/v1/otlp/v1/logs": "POST",
    "/tracker/v1.js": "GET, HEAD",
    "/api/tracker/vitals.js": "GET, HEAD",
    "/pharos-run.py": "GET, HEAD",
    "/health/live": "GET, HEAD",
    "/health/ready": "GET, HEAD",
}


@pytest.mark.parametrize("path", ALLOWED)
async def test_unsupported_method_is_405_or_501(path, edge):
    allowed = ALLOWED[path]
    is_otlp = "otlp" in path
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "FOO"):
        if method in allowed.split(", "):
            continue
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nConnection: close\r\n\r\n"
        status, headers, body = await exchange(edge, head.encode())
        assert (status, headers["Allow"]) == (501 if method == "FOO" else 405, allowed), method
        assert headers["Server"] == "pharos"
        assert headers["X-Request-Id"] == "mine" or method == "FOO"
        assert headers["Content-Type"] == ("application/json" if is_otlp else "application/problem+json")
        if method == "HEAD":
            assert body == b""
        else:
            assert (b'"code":12' if is_otlp else b'"type":"/problems/method-not-') in body


async def exchange(edge, sent):
    """Send bytes and return status, headers and body, up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    writer.write(sent)
    async with asyncio.timeout(60):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    first, *lines = head.decode().split("\r\n")
    return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines), body


@pytest.mark.parametrize("path", [path for path, allowed in ALLOWED.items() if "HEAD" in allowed])
async def test_head_is_get_without_the_body(path, edge):
    answers = [await edge.request(method, path) for method in ("GET", "HEAD")]
    for name in ("Content-Type", "Content-Length", "ETag", "Cache-Control", "Server"):
        assert answers[0].headers.get(name) == answers[1].headers.get(name)
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].body
    assert answers[1].body == b""


@pytest.mark.parametrize(
    ("change", "statuses"),
    [
        ("", [100, 202]),
        ("wrong key", [401]),
        ("too long", [413]),
        ("Content-Type: text/plain", [415]),
        ("HTTP/1.0", [202]),
        ("Expect: something-else", [202]),
    ],
)
async def test_a_waiting_client_gets_100_or_the_refusal(change, statuses, edge):
    head = edge.head(f"Content-Length: {len(BATCH)}", "Expect: 100-Continue").decode()
    head = {
        "wrong key": head.replace(edge.key, "phr_ing_no"),
        "too long": head.replace(f"Length: {len(BATCH)}", "Length: 6000000"),
        "Content-Type: text/plain": head.replace("application/json", "text/plain"),
        "HTTP/1.0": head.replace("HTTP/1.1", "HTTP/1.0"),
        "Expect: something-else": head.replace("100-Continue", "something-else"),
    }.get(change, head)
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
    writer.write(head.encode())
    if statuses == [202]:
        writer.write(BATCH)
    async with asyncio.timeout(60):
        for status in statuses:
            answer = await reader.readuntil(b"\r\n\r\n")
            assert int(answer.split(b" ")[1]) == status
            if status == 100:
                assert edge.stored_records() == 0
                writer.write(BATCH)
    writer.close()


async def test_otlp_and_page_views_support_expect_continue(edge):
    tracker_id = await edge.open_site("https://shop.example")
    event = b'{"events":[{"id":"0190b5a4-0000-7000-8000-000000000001","type":"pageview","path":"/"}]}'
    otlp = f"Authorization: Bearer {edge.key}\r\nContent-Type: application/json"
    for path, lines, body, status in (
        ("/api/v1/otlp/v1/logs", otlp, b'{"resourceLogs":[]}', 200),
        (
            f"/api/v1/collect/{tracker_id}",
            "Origin: https://shop.example\r\nContent-Type: text/plain",
            event,
            202,
        ),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\nExpect: 100-continue\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        async with asyncio.timeout(60):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            assert (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1] == b"%d" % status
        writer.close()
