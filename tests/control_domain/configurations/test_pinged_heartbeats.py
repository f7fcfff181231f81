"""Heartbeats that pings create while a review is open."""

from datetime import UTC, datetime

import pytest

from control_domain.tables.monitors import CreatedHeartbeat, Heartbeat
from control_workers.created_heartbeats import publish_created_heartbeats
from tests.support.deploy_platform import Platform
from tests.support.reviewed_project import ReviewedProject

OTHER = "environments: {staging: {name: Stage}}\n"


@pytest.fixture
def shop(platform: Platform) -> ReviewedProject:
    return ReviewedProject(platform, "shop")


async def _ping(shop: ReviewedProject, name: str, *, is_published: bool) -> None:
    """Create the heartbeat of staging as a consumer does for a ping."""
    now = datetime.now(UTC)
    async with shop.platform.sessions() as session, session.begin():
        heartbeat = Heartbeat(
            environment_id=shop.platform.acme.environment("shop/staging").id,
            name=name,
            created_at=now,
            period_seconds=86_400,
            timezone="UTC",
            grace_seconds=3600,
            max_runtime_seconds=3600,
            failures_before_down=1,
            paused=False,
        )
        session.add(heartbeat)
        await session.flush()
        session.add(CreatedHeartbeat(heartbeat_id=heartbeat.id, created_ms=int(now.timestamp() * 1000)))
    if is_published:
        await publish_created_heartbeats(shop.platform.sessions, shop.directory, now)


async def test_they_do_not_outdate_a_review_of_something_else(shop: ReviewedProject) -> None:
    await _ping(shop, "before", is_published=True)
    review = await shop.review(OTHER)
    await _ping(shop, "published", is_published=True)
    await _ping(shop, "not yet", is_published=False)
    assert (await shop.apply(review)).status == 200


@pytest.mark.parametrize(
    "document",
    [
        "environments: {staging: {heartbeats: {backup: {period: 1h}}}}\n",
        "delete: [environments.staging]\n",
    ],
    ids=["creates it", "removes its environment"],
)
async def test_they_outdate_a_review_that_concerns_them(shop: ReviewedProject, document: str) -> None:
    review = await shop.review(document)
    await _ping(shop, "backup", is_published=True)
    assert (await shop.apply(review)).problem == (409, "project-changed")


async def test_another_change_still_outdates_the_review(shop: ReviewedProject) -> None:
    review = await shop.review(OTHER)
    await _ping(shop, "backup", is_published=True)
    environment = shop.platform.acme.environment("shop/staging").public_id
    made = await shop.platform.call(
        "POST",
        f"/v1/environments/{environment}/heartbeats",
        {"name": "by hand", "period_seconds": 60},
        token=shop.platform.acme.token("owner"),
    )
    assert made.status == 201, made.body
    assert (await shop.apply(review)).problem == (409, "project-changed")
