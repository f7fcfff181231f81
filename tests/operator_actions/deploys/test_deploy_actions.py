"""What an operator brings to environments and follows: deploys, rollbacks, promotions; on both databases."""

from datetime import timedelta
from typing import Any

import pytest

from control_domain.projects.operations import create_environment, create_project
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from tests.support import carried_out
from tests.support.operated import NOW, REVISION, Operated

DEPLOYER, MAINTAINER = "deployer@acme.example", "maintainer@acme.example"


async def carry_out(operated: Operated, number: int) -> int:
    """To its end; gives its number."""
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.begin(session, number, NOW)
        await carried_out.bring_live(session, number, NOW)
    return number


async def deploy(operated: Operated, **wanted: Any) -> int:
    """A deployment that has succeeded."""
    return await carry_out(operated, (await operated.act("deployments/deploy", **wanted))["id"])


async def test_a_deploy_is_queued_as_the_operator(operated: Operated) -> None:
    told = await operated.act("deployments/deploy", ref="v1")
    assert (told["status"], told["trigger"], told["ref"]) == ("queued", "api", "v1")
    assert (told["project"], told["environment"]) == ("shop", "production")
    deployment = await operated.deployment(told["id"])
    assert (deployment.asked_by_id, deployment.needs_approval) == (None, False)
    details = {
        "environment": operated.environment.public_id,
        "trigger": "api",
        "ref": "v1",
        "note": None,
    }
    entry = ("deployment.queue", f"deployment {told['id']}", None, "operator kim", details)
    assert (await operated.audited())[0] == entry
    line = await operated.refused("deployments/deploy")
    assert (
        line == f"Deployment {told['id']} of this environment is not finished. Wait for it, then ask again."
    )


async def test_a_deploy_on_behalf_of_a_person(operated: Operated) -> None:
    told = await operated.act("deployments/deploy", environment_id="shop/production", by=DEPLOYER)
    assert (await operated.deployment(told["id"])).asked_by_id == operated.people["deployer"].id
    assert (await operated.audited())[0][2] == DEPLOYER


async def test_approvals_know_who_asked(operated: Operated) -> None:
    await operated.change_environment(deploys_need_approval=True)
    line = await operated.refused("deployments/deploy", ref="main")
    assert line == (
        "A second person has to agree to deploys to this environment: say who asks for it with --by EMAIL."
    )
    assert await operated.count(Deployment) == 0
    told = await operated.act("deployments/deploy", ref="main", by=MAINTAINER)
    assert told["status"] == "awaiting_approval"
    line = await operated.refused("deployments/approve", id=told["id"], by=MAINTAINER, revision=REVISION)
    assert line == "Maintainer has asked for it: somebody else has to decide."


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"ref": "-rf"}, "'-rf' is no branch, tag or commit that Git allows; one is main."),
        ({"environment_id": "nowhere"}, "There is no environment nowhere;"),
        ({"by": "viewer@acme.example"}, "viewer@acme.example may not deploy in the project shop: name"),
        ({"by": "nobody@acme.example"}, "There is no person 'nobody@acme.example';"),
    ],
    ids=str,
)
async def test_invalid_deploys_are_refused(operated: Operated, wanted: dict[str, Any], told: str) -> None:
    assert told in await operated.refused("deployments/deploy", **wanted)


async def test_a_deploy_checks_the_gates_of_the_environment(operated: Operated) -> None:
    await operated.act("environments/lock", id="production", reason="sale")
    line = await operated.refused("deployments/deploy")
    assert line == "The environment is locked by an operator: sale; `pharos unlock` takes the lock away."
    await operated.act("environments/unlock", id="production")
    await operated.act("environments/state", id="production", state="hibernated")
    assert await operated.refused("deployments/deploy") == "The environment is hibernated: wake it first."


async def test_a_rollback_goes_to_the_release_before_the_live_one(operated: Operated) -> None:
    first, second, third = [await deploy(operated) for _ in range(3)]
    told = await operated.act("deployments/roll-back")
    assert (told["trigger"], told["status"], told["revision"]) == ("rollback", "queued", REVISION)
    assert (await operated.deployment(told["id"])).rolled_back_to_id == second
    await carry_out(operated, told["id"])
    # What is live is the second release again: the one before it is the first.
    told = await operated.act("deployments/roll-back", by=DEPLOYER)
    deployment = await operated.deployment(told["id"])
    assert (deployment.rolled_back_to_id, deployment.asked_by_id) == (first, operated.people["deployer"].id)
    await carry_out(operated, told["id"])
    line = await operated.refused("deployments/roll-back")
    assert line == (
        f"shop/production has no release that is kept and older than the live one, which deployment {first} has "
        "built: there is nothing to go back to."
    )
    told = await operated.act("deployments/roll-back", to=third)
    assert (await operated.deployment(told["id"])).rolled_back_to_id == third


@pytest.mark.both_databases
async def test_a_rollback_skips_releases_that_are_not_retained(operated: Operated) -> None:
    first, second, _ = [await deploy(operated) for _ in range(3)]
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.give_up_release(session, second, NOW)
    line = await operated.refused("deployments/roll-back", to=second)
    assert line.startswith(f"Deployment {second} has no release that is retained;")
    told = await operated.act("deployments/roll-back")
    assert (await operated.deployment(told["id"])).rolled_back_to_id == first


async def test_invalid_rollbacks_are_refused(operated: Operated) -> None:
    line = await operated.refused("deployments/roll-back")
    assert line == (
        "Nothing is live in shop/production: `pharos deploy shop/production` brings something there."
    )
    queued = await operated.queue()
    line = await operated.refused("deployments/roll-back", to=queued)
    assert line.startswith(f"Deployment {queued} has no release that is retained;")
    assert "There is no deployment 999;" in await operated.refused("deployments/roll-back", to=999)
    await operated.act("environments/create", name="Staging", type="staging")
    line = await operated.refused("deployments/roll-back", environment_id="staging", to=queued)
    assert line == (
        f"Deployment {queued} went to shop/production, not to shop/staging: `pharos deployments --environment "
        "shop/staging` shows those that did."
    )


@pytest.mark.both_databases
async def test_a_promotion_of_a_deployment_and_of_what_is_live(operated: Operated) -> None:
    await operated.act("environments/create", name="Staging", type="staging")
    number = await deploy(operated, environment_id="staging")
    # Another project has a production too: the deployment's own is meant.
    async with operated.engines.sessions() as session, session.begin():
        blog = await create_project(session, operated.account, "Blog", "blog", NOW)
        await create_environment(session, blog, "Production", "production", "production", NOW)
    for what, to in ((str(number), "production"), ("staging", "shop/production")):
        told = await operated.act("deployments/promote", what=what, to=to, note="for the sale")
        assert (told["trigger"], told["environment"], told["project"]) == ("promotion", "production", "shop")
        assert (told["promoted_from_build_id"], told["note"]) == (number, "for the sale")
        await operated.act("deployments/cancel", id=told["id"])


async def test_invalid_promotions_are_refused(operated: Operated) -> None:
    number = await deploy(operated)
    await operated.act("environments/create", name="Staging", type="staging")
    for wanted, told in (
        (
            {"what": str(number), "to": "staging"},
            "The environment staging comes no later than production, where the deployment went: promote to one of a "
            "higher order.",
        ),
        ({"what": "production", "to": "production"}, "production comes no later than production"),
        ({"what": str(number), "to": "nowhere"}, "There is no environment nowhere in the project shop;"),
        ({"what": "staging", "to": "production"}, "Nothing is live in shop/staging:"),
        ({"what": "999", "to": "production"}, "There is no deployment 999;"),
        ({"what": str(2**31), "to": "production"}, "2147483648 is no ID."),
        ({"what": str(number), "to": "staging", "note": "n" * 501}, "A note has up to 500 printable"),
    ):
        assert told in await operated.refused("deployments/promote", **wanted), wanted
    queued = await operated.queue()
    line = await operated.refused("deployments/promote", what=str(queued), to="staging")
    assert line == f"Deployment {queued} has not succeeded, or its release is not retained any more."


@pytest.mark.both_databases
async def test_a_deployment_is_followed(operated: Operated) -> None:
    number = (await operated.act("deployments/deploy", ref="main"))["id"]
    seen = await operated.act("deployments/follow", id=number)
    assert [line["text"] for line in seen["lines"]] == ["Queued: main."]
    assert (seen["truncated"], seen["has_deployer"]) == (False, False)
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.hold_lease(session, operated.environment.id, NOW)
        await carried_out.begin(session, number, NOW)
        await carried_out.say(session, number, NOW, "one", "two", stream="stdout")
    after = seen["lines"][-1]["id"]
    seen = await operated.act("deployments/follow", id=number, after=after)
    assert [(line["stream"], line["text"]) for line in seen["lines"]] == [
        ("stdout", "one"),
        ("stdout", "two"),
    ]
    told = seen["deployment"]
    assert (told["status"], told["step"], told["address"]) == ("deploying", "build", carried_out.ADDRESS)
    assert (seen["has_deployer"], told["is_live"]) == (True, False)
    seen = await operated.act("deployments/follow", id=number, lines=1)
    assert ([line["text"] for line in seen["lines"]], seen["truncated"]) == (["two"], True)
    async with operated.engines.sessions() as session, session.begin():
        await carried_out.bring_live(session, number, NOW + timedelta(seconds=3.25))
        await carried_out.hold_lease(session, operated.environment.id, NOW, seconds=-1)
    seen = await operated.act("deployments/follow", id=number, after=after)
    told = seen["deployment"]
    assert (told["status"], told["seconds"], told["is_live"]) == ("succeeded", 3.25, True)
    assert seen["has_deployer"] is False
    await deploy(operated)
    told = (await operated.act("deployments/follow", id=number))["deployment"]
    assert told["is_live"] is False


async def test_waiting_for_a_second_person_does_not_count(operated: Operated) -> None:
    await operated.change_environment(deploys_need_approval=True)
    number = await operated.queue("deployer", ref="main")
    wanted = {"created_at": NOW - timedelta(hours=2), "decided_at": NOW - timedelta(seconds=2)}
    await operated.change(Deployment, number, **wanted)
    assert (await operated.act("deployments/follow", id=number))["deployment"]["seconds"] == 2.0


@pytest.mark.both_databases
async def test_a_deployment_without_its_environment_is_followed(operated: Operated) -> None:
    number = await deploy(operated)
    await operated.act("environments/remove", id="production")
    told = (await operated.act("deployments/follow", id=number))["deployment"]
    assert (told["environment"], told["address"], told["is_live"]) == (None, None, False)
    assert await operated.count(Environment) == 0
    assert (
        await operated.refused("deployments/follow", id=number, lines=1001)
        == "The number of lines is 1 to 1000."
    )
    assert "There is no deployment 999;" in await operated.refused("deployments/follow", id=999)
