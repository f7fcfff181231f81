"""What an operator brings to environments and follows: deploys, rollbacks, promotions; on both databases."""

from typing import Any

import pytest

from control_domain.projects.operations import create_environment, create_project
from control_domain.tables.deployments import Deployment
from tests.support import deployment_rows
from tests.support.managed_project import NOW, REVISION, ManagedProject

DEPLOYER, MAINTAINER = "deployer@acme.example", "maintainer@acme.example"


async def carry_out(managed: ManagedProject, number: int) -> int:
    """To its end; gives its number."""
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.begin_deployment(session, number, NOW)
        await deployment_rows.complete_deployment(session, number, NOW)
    return number


async def deploy(managed: ManagedProject, **wanted: Any) -> int:
    """A deployment that has succeeded."""
    return await carry_out(managed, (await managed.act("deployments/deploy", **wanted))["id"])


async def test_a_deploy_is_queued_as_the_operator(managed: ManagedProject) -> None:
    told = await managed.act("deployments/deploy", ref="v1")
    assert (told["status"], told["trigger"], told["ref"]) == ("queued", "api", "v1")
    assert (told["project"], told["environment"]) == ("shop", "production")
    deployment = await managed.deployment(told["id"])
    assert (deployment.asked_by_id, deployment.needs_approval) == (None, False)
    details = {
        "environment": managed.environment.public_id,
        "trigger": "api",
        "ref": "v1",
        "note": None,
    }
    entry = ("deployment.queue", f"deployment {told['id']}", None, "operator kim", details)
    assert (await managed.read_audit_log())[0] == entry
    line = await managed.expect_refusal("deployments/deploy")
    assert (
        line == f"Deployment {told['id']} of this environment is not finished. Wait for it, then ask again."
    )


async def test_a_deploy_on_behalf_of_a_person(managed: ManagedProject) -> None:
    told = await managed.act("deployments/deploy", environment_id="shop/production", by=DEPLOYER)
    assert (await managed.deployment(told["id"])).asked_by_id == managed.people["deployer"].id
    assert (await managed.read_audit_log())[0][2] == DEPLOYER


async def test_approvals_know_who_asked(managed: ManagedProject) -> None:
    await managed.change_environment(deploys_need_approval=True)
    line = await managed.expect_refusal("deployments/deploy", ref="main")
    assert line == (
        "A second person has to agree to deploys to this environment: say who asks for it with --by EMAIL."
    )
    assert await managed.count(Deployment) == 0
    told = await managed.act("deployments/deploy", ref="main", by=MAINTAINER)
    assert told["status"] == "awaiting_approval"
    line = await managed.expect_refusal(
        "deployments/approve", id=told["id"], by=MAINTAINER, revision=REVISION
    )
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
async def test_invalid_deploys_are_refused(
    managed: ManagedProject, wanted: dict[str, Any], told: str
) -> None:
    assert told in await managed.expect_refusal("deployments/deploy", **wanted)


async def test_a_deploy_checks_the_gates_of_the_environment(managed: ManagedProject) -> None:
    await managed.act("environments/lock", id="production", reason="sale")
    line = await managed.expect_refusal("deployments/deploy")
    assert line == "The environment is locked by an operator: sale; `pharos unlock` takes the lock away."
    await managed.act("environments/unlock", id="production")
    await managed.act("environments/state", id="production", state="hibernated")
    assert (
        await managed.expect_refusal("deployments/deploy") == "The environment is hibernated: wake it first."
    )


async def test_a_rollback_goes_to_the_release_before_the_live_one(managed: ManagedProject) -> None:
    first, second, third = [await deploy(managed) for _ in range(3)]
    told = await managed.act("deployments/roll-back")
    assert (told["trigger"], told["status"], told["revision"]) == ("rollback", "queued", REVISION)
    assert (await managed.deployment(told["id"])).rolled_back_to_id == second
    await carry_out(managed, told["id"])
    # What is live is the second release again: the one before it is the first.
    told = await managed.act("deployments/roll-back", by=DEPLOYER)
    deployment = await managed.deployment(told["id"])
    assert (deployment.rolled_back_to_id, deployment.asked_by_id) == (first, managed.people["deployer"].id)
    await carry_out(managed, told["id"])
    line = await managed.expect_refusal("deployments/roll-back")
    assert line == (
        f"shop/production has no release that is kept and older than the live one, which deployment {first} has "
        "built: there is nothing to go back to."
    )
    told = await managed.act("deployments/roll-back", to=third)
    assert (await managed.deployment(told["id"])).rolled_back_to_id == third


@pytest.mark.both_databases
async def test_a_rollback_skips_releases_that_are_not_retained(managed: ManagedProject) -> None:
    first, second, _ = [await deploy(managed) for _ in range(3)]
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.remove_release(session, second, NOW)
    line = await managed.expect_refusal("deployments/roll-back", to=second)
    assert line.startswith(f"Deployment {second} has no retained release:")
    told = await managed.act("deployments/roll-back")
    assert (await managed.deployment(told["id"])).rolled_back_to_id == first


async def test_invalid_rollbacks_are_refused(managed: ManagedProject) -> None:
    line = await managed.expect_refusal("deployments/roll-back")
    assert line == (
        "Nothing is live in shop/production: `pharos deploy shop/production` brings something there."
    )
    queued = await managed.queue()
    line = await managed.expect_refusal("deployments/roll-back", to=queued)
    assert line.startswith(f"Deployment {queued} has no retained release:")
    assert "There is no deployment 999;" in await managed.expect_refusal("deployments/roll-back", to=999)
    await managed.act("environments/create", name="Staging", type="staging")
    line = await managed.expect_refusal("deployments/roll-back", environment_id="staging", to=queued)
    assert line == (
        f"Deployment {queued} went to shop/production, not to shop/staging: `pharos deployments --environment "
        "shop/staging` shows those that did."
    )


@pytest.mark.both_databases
async def test_a_promotion_of_a_deployment_and_of_what_is_live(managed: ManagedProject) -> None:
    await managed.act("environments/create", name="Staging", type="staging")
    number = await deploy(managed, environment_id="staging")
    # Another project has a production too: the deployment's own is meant.
    async with managed.engines.sessions() as session, session.begin():
        blog = await create_project(session, managed.account, "Blog", "blog", NOW)
        await create_environment(session, blog, "Production", "production", "production", NOW)
    for what, to in ((str(number), "production"), ("staging", "shop/production")):
        told = await managed.act("deployments/promote", what=what, to=to, note="for the sale")
        assert (told["trigger"], told["environment"], told["project"]) == ("promotion", "production", "shop")
        assert (told["promoted_from_build_id"], told["note"]) == (number, "for the sale")
        await managed.act("deployments/cancel", id=told["id"])


async def test_invalid_promotions_are_refused(managed: ManagedProject) -> None:
    number = await deploy(managed)
    await managed.act("environments/create", name="Staging", type="staging")
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
        assert told in await managed.expect_refusal("deployments/promote", **wanted), wanted
    queued = await managed.queue()
    line = await managed.expect_refusal("deployments/promote", what=str(queued), to="staging")
    assert line == f"Deployment {queued} has not succeeded, or its release is not retained any more."
