"""The browser tracker in a real browser: the exact events that the actions of a visitor and a page cause."""

import asyncio
import json
from typing import Any

import pytest

from tests.support.tracked_visit import MEASURED, Visit, pageview
from tests.support.waits import wait_for_result


async def test_the_first_page_view_contains_the_source_of_the_visit(visit: Visit) -> None:
    preflights = visit.collector.requests["OPTIONS"]
    await visit.tab.open(f"{visit.pages.elsewhere}/{visit.folder}/elsewhere")
    await visit.click_to("#back", "plain")
    campaign = {"utm_source": "news", "utm_medium": "mail", "utm_campaign": "autumn"}
    first = pageview("plain", referrer_host="localhost", **campaign)
    # Without hiding the page.
    await visit.expect_events(first, leave=False)
    await visit.run("history.pushState({}, '', 'second')")
    await visit.open("links")
    await visit.click_to("#inside", "plain")
    await visit.expect_events(first, pageview("second"), pageview("links"), pageview("plain"))
    assert visit.collector.requests["OPTIONS"] == preflights


async def test_a_single_page_application_views_a_page_when_the_path_changes(visit: Visit) -> None:
    await visit.open("plain?utm_source=news")
    await visit.run("history.pushState({}, '', 'second?utm_campaign=spring')")
    await visit.run("history.replaceState({}, '', 'second?page=2#part')")
    await visit.run("history.replaceState({}, '', 'third')")
    await visit.run("history.back()")
    await visit.tab.wait_at(f"/{visit.folder}/plain")
    await visit.run("location.hash = 'part'")
    first = pageview("plain", utm_source="news")
    await visit.expect_events(first, first, pageview("second", utm_campaign="spring"), pageview("third"))


async def test_the_hash_is_part_of_the_path_if_the_tag_enables_it(visit: Visit) -> None:
    await visit.open("hash#one")
    await visit.run("location.hash = 'two'")
    await visit.run("history.replaceState({}, '', '?page=2#two')")
    await visit.run("history.pushState({}, '', '#three')")
    await visit.expect_events(pageview("hash#one"), pageview("hash#two"), pageview("hash#three"))


async def test_a_page_that_comes_back_from_the_cache_is_viewed_again(visit: Visit) -> None:
    await visit.tab.add_startup_script(
        "addEventListener('pageshow', (event) => { window.back = event.persisted })"
    )
    await visit.tab.open(f"{visit.pages.elsewhere}/{visit.folder}/elsewhere")
    await visit.click_to("#back", "plain")
    await visit.open("links")
    await visit.run("history.back()")
    await visit.tab.wait_at(f"/{visit.folder}/plain")
    await wait_for_result(lambda: visit.tab.evaluate("window.back"))
    campaign = {"utm_source": "news", "utm_medium": "mail", "utm_campaign": "autumn"}
    came = pageview("plain", referrer_host="localhost", **campaign)
    await visit.expect_events(came, pageview("links"), pageview("plain", **campaign))


@pytest.mark.parametrize("shown", [True, False])
async def test_a_prerendered_page_is_viewed_when_it_is_shown(visit: Visit, shown: bool) -> None:
    requests = visit.pages.requests
    here = f"/{visit.folder}"
    # With a query the page continues to the other one when it is released.
    await visit.tab.open_unwatched(f"{visit.pages.origin}{here}/speculating{'?go' if shown else ''}")

    async def prerendering() -> bool:
        return requests[f"{here}/prerendering-true"] == 1

    await wait_for_result(prerendering)
    await asyncio.sleep(1.4)
    await visit.expect_events(pageview("speculating"), leave=False)
    if shown:
        visit.pages.release(visit.folder)
        # Earlier events of the page are kept until then, too.
        ahead = ("Ahead", "prerendered", {"prerendering": True})
        await visit.expect_events(pageview("speculating"), pageview("prerendered"), ahead, leave=False)
    assert requests[f"{here}/activated"] == shown
    assert requests[f"{here}/prerendering-false"] == 0


async def test_a_click_on_an_outbound_link_is_sent_while_the_page_unloads(visit: Visit) -> None:
    await visit.open("links")
    link = f"{visit.pages.elsewhere}/{visit.folder}/elsewhere?from=here"
    clicked = ("Outbound Link: Click", "links", {"url": link})
    await visit.expect_events(pageview("links"), leave=False)
    # Delayed events are not sent at all.
    await visit.run("window.setTimeout = () => 1")
    await visit.tab.click("#outbound", "middle")
    await visit.expect_events(pageview("links"), clicked, leave=False)
    await visit.click_to("#outbound", "elsewhere")
    await visit.expect_events(pageview("links"), clicked, clicked, leave=False)


async def test_a_download_is_an_event_and_other_links_are_not(visit: Visit) -> None:
    await visit.open("links")
    for link in ("#file", "#saved", "#made", "#nowhere"):
        await visit.tab.click(link)
    await visit.tab.click("#mail")
    await visit.click_to("#inside b", "plain")
    here = f"{visit.pages.origin}/{visit.folder}"
    # The content of a file that the page created is never sent.
    urls = (f"{here}/report.PDF?version=2", f"{here}/second?as=copy", "export.csv")
    await visit.expect_events(
        pageview("links"), *(("File Download", "links", {"url": url}) for url in urls), pageview("plain")
    )


async def test_a_frame_in_a_page_of_the_same_origin_counts_no_view(visit: Visit) -> None:
    await visit.open("framing")
    out = {"url": f"{visit.pages.elsewhere}/{visit.folder}/elsewhere?framed"}
    done = [("In a frame", "framed", {}), ("Outbound Link: Click", "framed-second", out)]
    await asyncio.sleep(0.6)
    await visit.expect_events(pageview("framing"), *done)
    await visit.wait_measured("Engagement")
    assert {path for _, path, _ in await visit.events(measured=True)} == {"framing"}


async def test_a_frame_in_a_page_of_another_site_is_viewed(visit: Visit) -> None:
    await visit.tab.open(f"{visit.pages.elsewhere}/{visit.folder}/framing-from-elsewhere")
    out = {"url": f"{visit.pages.elsewhere}/{visit.folder}/elsewhere?framed"}
    await visit.expect_events(
        pageview("framed", referrer_host="localhost"),
        ("404", "framed", {}),
        ("In a frame", "framed", {}),
        *(pageview("framed-second") for _ in range(2)),
        ("Outbound Link: Click", "framed-second", out),
        leave=False,
    )


async def test_an_unpaired_surrogate_loses_only_itself(visit: Visit) -> None:
    await visit.open("plain")
    await visit.run(
        "pharos('event', 'Cut', {low: '😀'.slice(1), high: '😀'.slice(0, 1), text: '😀 \\\\ud83d'})"
    )
    cut = {"low": "\ufffd", "high": "\ufffd", "text": "😀 \\ud83d"}
    await visit.expect_events(pageview("plain"), ("Cut", "plain", cut))
    for post in visit.tab.posts:
        # Raises for an unpaired surrogate.
        json.dumps(json.loads(post), ensure_ascii=False).encode()


async def test_a_missing_page_sends_an_event(visit: Visit) -> None:
    for name in ("missing", "missing-by-attribute", "plain"):
        await visit.open(name)
    await visit.run("pharos('event', '404')")
    names = ("missing", "missing-by-attribute", "plain")
    await visit.expect_events(*(pageview(name) for name in names), *(("404", name, {}) for name in names))


async def test_a_custom_event_has_up_to_eight_properties(visit: Visit) -> None:
    await visit.open("plain")
    await visit.run("pharos('event', 'Order', {plan: 'large', revenue: 12.5, currency: 'EUR', name: 'x'})")
    await visit.run("pharos('event', 'Many', {a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, revenue: 8})")
    # Only the value that is not JSON is lost.
    await visit.run("pharos('event', 'Bad', {a: 1n}); pharos('event', 'Good'); pharos('pageview'); pharos()")
    await visit.expect_events(
        *(pageview("plain"), pageview("plain"), ("Good", "plain", {})),
        ("Order", "plain", {"plan": "large", "revenue": 12.5, "currency": "EUR"}),
        ("Many", "plain", {"revenue": 8, "a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}),
    )


async def test_calls_before_the_tracker_has_loaded_are_kept(visit: Visit) -> None:
    await visit.open("stub")
    await visit.expect_events(pageview("stub"), ("Early", "stub", {"step": 1}))


async def test_web_vitals_are_sent_with_their_last_value_when_the_page_is_hidden(visit: Visit) -> None:
    await visit.tab.add_startup_script(MEASURED)
    await visit.open("shifting")
    largest = (
        "new Promise((done) => new PerformanceObserver((seen) => seen.getEntries().forEach((entry) => "
        "entry.element.id === 'late' && done(entry.startTime)))"
        ".observe({type: 'largest-contentful-paint', buffered: true}))"
    )
    lcp = await visit.tab.evaluate(largest)

    async def newest() -> dict[str, float]:
        """Return the last value of each metric that the tracker received."""
        return dict(await visit.tab.evaluate("measured"))

    async def shifted_by_more_than(before: float) -> None:
        async def has_shifted() -> bool:
            return (await newest()).get("CLS", 0) > before

        await wait_for_result(has_shifted)

    async def all_measured() -> bool:
        return len(await newest()) == 5

    await visit.run("shift()")
    # A shift directly after a click would not count.
    await shifted_by_more_than(0)
    await visit.tab.click("button")
    await wait_for_result(all_measured)
    assert await visit.events(measured=True) == []

    async def vitals(count: int) -> dict[str, list[dict[str, Any]]]:
        await visit.wait_measured("Web Vital", count)
        await asyncio.sleep(0.3)
        found: dict[str, list[dict[str, Any]]] = {}
        for name, path, rest in await visit.events(measured=True):
            assert path == "shifting"
            if name == "Web Vital":
                found.setdefault(rest.pop("metric"), []).append(rest)
        return found

    await visit.tab.hide()
    before = await vitals(5)
    assert {metric: len(values) for metric, values in before.items()} == dict.fromkeys(
        ("CLS", "FCP", "INP", "LCP", "TTFB"), 1
    )
    assert all(set(sample) == {"value", "id"} for [sample] in before.values())
    assert before["LCP"][0]["value"] == pytest.approx(lcp, abs=0.1)
    assert before["FCP"][0]["value"] < lcp
    assert before["INP"][0]["value"] >= 120
    assert 0 < before["CLS"][0]["value"] < 1
    # The page is shown again and one value changes: only that one is sent again, as the same measurement.
    await visit.tab.show()
    await asyncio.sleep(0.6)
    small_shift = (await newest())["CLS"]
    await visit.run("document.querySelector('#space').style.height = '400px'")
    await shifted_by_more_than(small_shift)
    await visit.tab.hide()
    after = await vitals(6)
    assert {metric: len(values) for metric, values in after.items()} == {**dict.fromkeys(before, 1), "CLS": 2}
    small, large = sorted(after["CLS"], key=lambda sample: float(sample["value"]))
    assert small == before["CLS"][0]
    assert large["id"] == small["id"] and large["value"] > small["value"]


async def test_the_time_that_a_page_was_visible_is_sent_in_parts(visit: Visit) -> None:
    # Use the clock of the page, because timers are late on a busy machine.
    await visit.tab.add_startup_script(
        "window.moments = []; const note = () => moments.push(performance.now() / 1000);"
        "addEventListener('visibilitychange', note, true)"
    )
    await visit.open("plain")
    await asyncio.sleep(1)
    await visit.run("note(); history.pushState({}, '', 'second')")
    # Counting resumes immediately: the remaining time of the second page is too short to be sent.
    await visit.run(
        "addEventListener('visibilitychange', () => document.visibilityState === 'visible'"
        " && history.pushState({}, '', 'third'))"
    )
    await asyncio.sleep(0.6)
    await visit.tab.hide()
    await asyncio.sleep(0.7)
    await visit.tab.show()
    # Without hiding the page again, the time of the third page is not sent.
    await visit.expect_events(pageview("plain"), pageview("second"), pageview("third"), leave=False)
    await visit.wait_measured("Engagement", 2)
    engaged = [event for event in await visit.events(measured=True) if event[0] == "Engagement"]
    assert [(path, list(rest)) for _, path, rest in engaged] == [
        ("plain", ["visible_seconds"]),
        ("second", ["visible_seconds"]),
    ]
    first, second = (rest["visible_seconds"] for _, _, rest in engaged)
    pushed, hidden, shown = await visit.tab.evaluate("moments")
    assert 1 <= first < pushed + 0.1
    assert 0.6 <= second == pytest.approx(hidden - pushed, abs=0.15)
    # This would show time that was counted while the page was hidden.
    assert shown - hidden > 0.6
    assert round(first, 1) == first


async def test_visible_time_is_sent_every_five_minutes(visit: Visit) -> None:
    # A clock that advances only on request, with its periodic callbacks.
    await visit.tab.add_startup_script(
        "let clock = 1; const timers = []; performance.now = () => clock;"
        "window.setInterval = (work, time) => timers.push({work, time, due: clock + time});"
        "window.pass = (time) => { for (const end = clock + time; clock < end; clock++)"
        " for (const timer of timers) if (timer.due === clock) { timer.due += timer.time; timer.work() } }"
    )
    await visit.open("plain")
    await visit.run("pass(690_000)")
    await visit.wait_measured("Engagement", 2)
    await visit.tab.hide()
    await visit.wait_measured("Engagement", 3)
    await asyncio.sleep(0.8)
    parts = [rest["visible_seconds"] for name, _, rest in await visit.events(True) if name == "Engagement"]
    assert sorted(parts) == [90, 300, 300]
