"""Bodies of unverified deliveries: how much memory they may use, and which are evicted."""

import asyncio
from contextlib import AbstractContextManager, ExitStack, suppress
from urllib.parse import urlsplit

import pytest
from sqlalchemy import update

from control_api.limits.webhook_bodies import BodyBudget, WebhookBodies
from control_api.limits.webhook_limits import WebhookSenders
from control_domain.tables.webhooks import SealedWebhookSecret
from pipeline_contracts.client_address import parse_trusted_proxies
from pipeline_contracts.errors import BadSignature, Unavailable
from tests.hostile.unfinished_webhooks import attack, deliver
from tests.support.webhooks import WebhookRepository, push

HOOK, HERE, THERE = "repository 1", "192.0.2.1", "198.51.100.0"


def test_bytes_are_counted_on_arrival_and_released_at_the_end() -> None:
    budget = BodyBudget(10, 10)
    for _ in range(3):
        with budget.reading(HERE) as reading:
            reading.add(4)
            reading.add(6)
            assert budget.bytes == 10
        assert budget.bytes == 0


def test_a_complete_body_is_never_evicted() -> None:
    budget = BodyBudget(10, 10)
    with budget.reading(HERE) as first, budget.reading(THERE) as second:
        first.add(6)
        with pytest.raises(Unavailable):
            second.add(5)


async def _ended(budget: BodyBudget, held: list[tuple[str, int]], sender: str, count: int) -> list[bool]:
    """Return which of these unfinished bodies are evicted when this sender sends another."""
    with ExitStack() as stack:
        readings = []
        for one, size in held:
            reading = stack.enter_context(budget.reading(one))
            stack.enter_context(reading.abortable(_Entered()))  # type: ignore[arg-type]
            reading.add(size)
            readings.append(reading)
        with budget.reading(sender) as newest:
            newest.add(count)
        return [reading.was_aborted for reading in readings]


class _Entered:
    """A fake of an active timeout."""

    def reschedule(self, _when: float) -> None:
        pass

    def expired(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("held", "sender", "count", "ended"),
    [
        # Over its share, a sender's own oldest body is evicted.
        ([(HERE, 3), (HERE, 3), (THERE, 3)], HERE, 2, [True, False, False]),
        ([(HERE, 3), (HERE, 3), (THERE, 3)], HERE, 5, [True, True, False]),
        # Over the total, the oldest body is evicted, of any sender.
        ([(THERE, 2), (HERE, 3), (HERE, 3), ("192.0.2.9", 2)], "192.0.2.8", 2, [True, False, False, False]),
        # Evicting a body without bytes would free nothing.
        ([(HERE, 0), (HERE, 6)], HERE, 1, [False, True]),
    ],
)
async def test_which_bodies_are_evicted(
    held: list[tuple[str, int]], sender: str, count: int, ended: list[bool]
) -> None:
    budget = BodyBudget(10, 6)
    assert await _ended(budget, held, sender, count) == ended
    assert budget.bytes == 0


async def test_an_expired_body_is_evicted_as_well() -> None:
    budget = BodyBudget(10, 10)
    with budget.reading(HERE) as late, budget.reading(THERE) as newest:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as ends:
                with late.abortable(ends):
                    late.add(10)
                    ends.reschedule(0)
                    asyncio.get_running_loop().call_soon(newest.add, 10)
                    await asyncio.sleep(60)
        assert (late.was_aborted, late.bytes, newest.bytes) == (True, 0, 10)


def test_unverified_senders_do_not_use_the_memory_of_verified_ones() -> None:
    bodies = WebhookBodies(unverified=(10, 10, 10), verified=(10, 6, 6))
    bodies.senders.record_valid(HOOK, HERE)
    with bodies.reading(HOOK, THERE) as other, bodies.reading(HOOK, HERE) as host:
        other.add(10)
        host.add(6)
        with pytest.raises(Unavailable):
            host.add(1)
        # A sender is verified per webhook: the secret of another webhook does not count.
        with bodies.reading("repository 2", HERE) as stranger, pytest.raises(Unavailable):
            stranger.add(1)


def test_a_failing_network_is_refused_until_it_is_verified() -> None:
    now = 0.0
    senders = WebhookSenders(lambda: now)
    for _ in range(100):
        senders.check_failures(HOOK, HERE)
        senders.record_failure(HOOK, HERE)
    with pytest.raises(Unavailable, match="no valid signature"):
        senders.check_failures(HOOK, HERE)
    senders.check_failures(HOOK, THERE)
    senders.check_failures("repository 2", HERE)
    now = 1.0
    senders.check_failures(HOOK, HERE)
    senders.record_failure(HOOK, HERE)
    with pytest.raises(Unavailable):
        senders.check_failures(HOOK, HERE)
    senders.record_valid(HOOK, HERE)
    # A network with an earlier valid signature is not refused.
    for _ in range(200):
        senders.check_failures(HOOK, HERE)
        senders.record_failure(HOOK, HERE)
    now = 86_402.0
    assert not senders.is_verified(HOOK, HERE)


def _attempt(
    senders: WebhookSenders, network: str = HERE, *, is_exempt: bool = False
) -> AbstractContextManager[None]:
    return senders.attempt(HOOK, network, (BadSignature,), is_exempt=is_exempt)


def test_concurrent_deliveries_stay_within_the_limit() -> None:
    senders = WebhookSenders(lambda: 0.0)
    with ExitStack() as held:
        for _ in range(100):
            held.enter_context(_attempt(senders))
        with pytest.raises(Unavailable), _attempt(senders):
            pass
        with _attempt(senders, THERE), _attempt(senders, is_exempt=True):
            pass
    # No delivery failed.
    for _ in range(100):
        with pytest.raises(BadSignature), _attempt(senders):
            raise BadSignature("no")
    with pytest.raises(Unavailable), _attempt(senders, "127.0.0.1"), _attempt(senders):
        pass


def test_proofs_of_a_webhook_evict_only_its_own() -> None:
    senders = WebhookSenders()
    senders.record_valid("repository 2", HERE)
    for number in range(5000):
        senders.record_valid(HOOK, str(number))
        senders.record_failure(HOOK, str(number))
    assert senders.is_verified("repository 2", HERE)
    assert [senders.is_verified(HOOK, str(number)) for number in (0, 4935, 4936, 4999)] == [
        False,
        False,
        True,
        True,
    ]
    assert (senders._verified_count, len(senders._failing)) == (65, 4096)


def test_the_total_number_of_proofs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control_api.limits.webhook_limits._MAX_VERIFIED", 4)
    senders = WebhookSenders()
    for connect_webhook, network in [("a", HERE), ("b", HERE), ("c", HERE), ("c", THERE), ("c", "192.0.2.9")]:
        senders.record_valid(connect_webhook, network)
    assert [senders.is_verified(connect_webhook, HERE) for connect_webhook in "abc"] == [True, True, False]
    # A new proof replaces the oldest one.
    senders.record_valid("d", HERE)
    assert [senders.is_verified(connect_webhook, HERE) for connect_webhook in "abd"] == [False, True, True]
    assert senders._verified_count == sum(map(len, senders._verified.values())) == 4


MIB = 2**20


@pytest.mark.parametrize(
    ("holders", "size", "is_proven"),
    [
        # Many webhooks of many accounts, from one address.
        ([(f"repository {number}", HERE) for number in range(1, 41)], MIB, True),
        # Many networks: of one site, and of a site each.
        ([(HOOK, f"2001:db8:0:{number:x}::/64") for number in range(240)], 100 * 1024, False),
        ([(HOOK, f"2001:db8:{number:x}::/64") for number in range(240)], 100 * 1024, False),
    ],
)
async def test_a_large_body_is_accepted_among_many_small_ones(
    holders: list[tuple[str, str]], size: int, is_proven: bool
) -> None:
    bodies = WebhookBodies()
    host = ("repository 99", THERE)
    for one in [*holders, host] if is_proven else []:
        bodies.senders.record_valid(*one)
    with ExitStack() as stack:
        await _hold_beside(bodies, stack, [(*one, size) for one in holders], host)


async def _hold_beside(
    bodies: WebhookBodies, stack: ExitStack, held: list[tuple[str, str, int]], host: tuple[str, str]
) -> None:
    """Send a body of 5 MiB in chunks; after each, the other bodies send one byte."""
    readings = []
    for connect_webhook, network, size in held:
        readings.append(stack.enter_context(bodies.reading(connect_webhook, network)))
        stack.enter_context(readings[-1].abortable(_Entered()))  # type: ignore[arg-type]
        readings[-1].add(size)
    newest = stack.enter_context(bodies.reading(*host))
    stack.enter_context(newest.abortable(_Entered()))  # type: ignore[arg-type]
    for number in range(80):
        newest.add(65_536)
        with suppress(Unavailable):
            readings[-1 - number % len(readings)].add(1)
    assert (newest.bytes, newest.was_aborted) == (5 * MIB, False)


def test_an_old_slow_body_is_evicted_for_younger_ones() -> None:
    budget = BodyBudget(10, 10)
    with budget.reading(HERE) as old, budget.reading(THERE) as young, ExitStack() as stack:
        stack.enter_context(old.abortable(_Entered()))  # type: ignore[arg-type]
        stack.enter_context(young.abortable(_Entered()))  # type: ignore[arg-type]
        old.add(5)
        young.add(5)
        with pytest.raises(Unavailable):
            old.add(1)
        assert (young.was_aborted, young.bytes) == (False, 5)


def test_a_site_and_an_account_have_shares() -> None:
    bodies = WebhookBodies(unverified=(100, 5, 8), verified=(100, 5, 8))
    groups = [
        [(HOOK, f"192.0.2.{last}", None) for last in (1, 2)],
        [(HOOK, f"2001:db8:0:{last}::/64", None) for last in (1, 2)],
        [(f"repository {number}", "198.51.100.9", "account 1") for number in (7, 8)],
    ]
    for number in (7, 8):
        bodies.senders.record_valid(f"repository {number}", "198.51.100.9")
    for first, second in groups:
        with bodies.reading(*first) as one, bodies.reading(*second) as other:
            one.add(5)
            other.add(3)
            with pytest.raises(Unavailable):
                other.add(1)
    assert bodies.bytes == 0


async def test_signed_deliveries_are_accepted_during_an_attack_with_endless_bodies(
    github: WebhookRepository,
) -> None:
    github.platform.app.state.webhook_bodies = bodies = WebhookBodies(
        unverified=(80_000, 40_000, 40_000), verified=(40_000, 10_000, 10_000)
    )
    sizes = [16_000] * 10 + [1000] * 60 + [100] * 30
    assert await attack(github, sizes, pause=0.0) == [202] * 5
    async with asyncio.timeout(30):
        while bodies.bytes:
            await asyncio.sleep(0.01)


async def test_a_stalled_body_is_aborted(github: WebhookRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control_api.requests.webhook_body._WINDOW_SECONDS", 0.2)
    where = urlsplit(github.platform.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    head = f"POST /api/repositories/{github.repository_id}/webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n"
    writer.write(head.encode() + b"\r\n" + b" " * 30_000)
    assert (await reader.readline()).split()[1] == b"408"
    writer.close()


async def test_the_sender_is_the_client_that_a_trusted_proxy_names(
    github: WebhookRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = github.platform.app
    app.state.client_addresses = parse_trusted_proxies("127.0.0.0/8")
    bodies: WebhookBodies = app.state.webhook_bodies
    # No failure expires during the test, even on a slow machine.
    monkeypatch.setattr(bodies.senders, "_clock", lambda: 0.0)
    answer = await github.deliver(push("github"), headers={"X-Forwarded-For": "2001:db8::7"})
    assert answer.status == 202
    connect_webhook = f"repository {github.repository_id}"
    assert bodies.senders.is_verified(connect_webhook, "2001:db8::/64")
    assert not bodies.senders.is_verified(connect_webhook, "127.0.0.1")
    sent = push("github")
    named = {"X-Forwarded-For": "203.0.113.9", "X-Hub-Signature-256": None}
    for _ in range(100):
        assert (await github.deliver(sent, headers=named)).status == 401
    async with github.platform.http.post(
        f"{github.platform.url}/api/repositories/{github.repository_id}/webhook",
        data=sent.body,
        headers={"X-Forwarded-For": "203.0.113.9"},
    ) as refused:
        assert (refused.status, refused.headers["Retry-After"]) == (503, "100")
    assert (await github.deliver(sent, headers={"X-Forwarded-For": "203.0.113.10"})).status == 202


async def test_a_secret_that_cannot_be_opened_is_not_a_bad_signature(github: WebhookRepository) -> None:
    async with github.platform.sessions() as session, session.begin():
        await session.execute(update(SealedWebhookSecret).values(key_id="unknown"))
    assert await deliver(github, 1) == 503
