"""Deployments as an operator handles them: listed, approved, rejected, canceled; on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.deployments import decisions
from control_domain.deployments.operations import tail_log
from control_domain.projects.operations import create_project
from control_domain.refusals import Refused
from control_domain.tables.audit import AuditEntry
from control_domain.tables.deployments import Deployment
from pipeline_contracts.deploy_states import DeploymentStatus
from tests.support.managed_project import NOW, REVISION, ManagedProject

AT = "2026-11-18T12:00:00.000Z"
MAINTAINER = "maintainer@acme.example"


async def _wait(managed: ManagedProject, by: str = "owner", **request: Any) -> int:
    """A deployment that waits for a second person."""
    await managed.change_environment(deploys_need_approval=True)
    return await managed.queue(by, **request)


async def _log(managed: ManagedProject, number: int) -> list[str]:
    async with managed.engines.sessions() as session:
        return [line.text for line in (await tail_log(session, number))[0]]


async def test_the_newest_are_listed_with_who_asked(managed: ManagedProject) -> None:
    numbers = []
    for ref in ("main", "v1", None):
        numbers.append(await managed.queue("deployer", ref=ref))
        await managed.act("deployments/cancel", id=numbers[-1])
    first, *others = await managed.act("deployments/list")
    assert [first["id"], *(one["id"] for one in others)] == numbers[::-1]
    assert others[-1] == {
        "id": numbers[0],
        "repository_id": managed.repository.id,
        "environment_id": managed.environment.public_id,
        "environment": "production",
        "project": "shop",
        "status": "canceled",
        "trigger": "api",
        "revision": None,
        "ref": "main",
        "note": None,
        "promoted_from_build_id": None,
        "asked_by": "deployer@acme.example",
        "decided_by": None,
        "decided_at": None,
        "created_at": AT,
        "finished_at": AT,
    }
    assert [one["id"] for one in await managed.act("deployments/list", limit=2)] == numbers[:0:-1]


@pytest.mark.both_databases
async def test_deployments_are_filtered_by_environment_or_project(managed: ManagedProject) -> None:
    number = await managed.queue()
    async with managed.engines.sessions() as session, session.begin():
        await create_project(session, managed.account, "Blog", "blog", NOW)
    await managed.act("environments/create", name="Staging", type="staging", project_id="shop")
    for wanted, found in (
        ({"environment_id": "production"}, [number]),
        ({"environment_id": "staging"}, []),
        ({"project_id": "shop"}, [number]),
        ({"project_id": "blog"}, []),
        ({"project_id": "shop", "environment_id": "production"}, [number]),
        ({"project_id": "blog", "environment_id": "production"}, []),
    ):
        assert [one["id"] for one in await managed.act("deployments/list", **wanted)] == found, wanted
    for limit in (0, 1001, "5"):
        assert await managed.expect_refusal("deployments/list", limit=limit) == "The limit is 1 to 1000."
    assert "There is no environment nowhere;" in await managed.expect_refusal(
        "deployments/list", environment_id="nowhere"
    )


@pytest.mark.both_databases
async def test_a_waiting_deployment_is_approved_by_a_second_person(managed: ManagedProject) -> None:
    await managed.act("variables/set", environment_id="production", text="A=1")
    number = await _wait(managed, "deployer", ref="main")
    (waiting,) = await managed.act("deployments/waiting")
    assert (waiting["id"], waiting["asked_by"], waiting["status"]) == (
        number,
        "deployer@acme.example",
        "awaiting_approval",
    )
    assert (waiting["variables"]["version"], waiting["workflow"], waiting["digest"]) == (1, None, None)
    wanted = {"by": MAINTAINER, "revision": REVISION.upper()}
    told = await managed.act("deployments/approve", id=number, **wanted)
    assert (told["status"], told["revision"], told["decided_at"]) == ("queued", REVISION, AT)
    assert await managed.act("deployments/waiting") == []
    deployment = await managed.deployment(number)
    assert (deployment.approved_revision, deployment.decided_by_id) == (
        REVISION,
        managed.people["maintainer"].id,
    )
    assert deployment.approved_variables_id is not None
    assert (await managed.act("deployments/list"))[0]["decided_by"] == MAINTAINER
    assert (await _log(managed, number))[-1] == f"Approved by Maintainer: {REVISION}."
    details = {"revision": REVISION, "digest": deployment.approved_digest}
    entry = ("deployment.approve", f"deployment {number}", MAINTAINER, "operator kim", details)
    assert (await managed.read_audit_log())[0] == entry


async def test_a_known_commit_need_not_be_named(managed: ManagedProject) -> None:
    number = await _wait(managed, revision=REVISION)
    line = await managed.expect_refusal("deployments/approve", id=number, by=MAINTAINER, revision="f" * 40)
    assert line == f"Deployment {number} is of the commit {REVISION}, not {'f' * 40}."
    assert (await managed.act("deployments/approve", id=number, by=MAINTAINER))["status"] == "queued"


async def test_what_waits_is_shown_with_all_that_an_approval_is_bound_to(managed: ManagedProject) -> None:
    number = await _wait(managed, revision=REVISION)
    workflow = "version: 1\nprocesses: {web: {command: python app.py}}\n"
    await managed.set_workflow(workflow, "deployer")
    await managed.act("variables/set", environment_id="production", text="A=1", by="deployer@acme.example")
    (waiting,) = await managed.act("deployments/waiting")
    assert waiting["changed_since_asked"] == "variables and workflow"
    assert (waiting["workflow"]["version"], waiting["variables"]["set_by"]) == (1, "deployer@acme.example")
    assert len(waiting["digest"]) == 16
    line = await managed.expect_refusal("deployments/approve", id=number, by=MAINTAINER)
    assert "The variables and workflow changed" in line and "--digest" in line
    told = await managed.act(
        "deployments/approve", id=number, by=MAINTAINER, digest=waiting["digest"].upper()
    )
    assert (told["status"], told["digest"], told["changed_since_asked"]) == (
        "queued",
        waiting["digest"],
        None,
    )


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            {},
            "The commit of main is not known yet: a deployer is looking it up. Try again in a moment",
        ),
        ({"revision": "main"}, "A revision is a whole commit of 40 or 64 hexadecimal digits"),
        ({"revision": REVISION[:39]}, "A revision is a whole commit"),
        ({"by": "owner@acme.example"}, "Owner has asked for it: somebody else has to decide."),
        (
            {"by": "deployer@acme.example"},
            "deployer@acme.example may not decide what waits in the project shop: name",
        ),
        ({"by": "viewer@acme.example"}, "viewer@acme.example may not decide"),
        ({"by": "stranger@acme.example"}, "stranger@acme.example may not decide"),
        ({"by": "outsider@other.example"}, "outsider@other.example may not decide"),
        (
            {"by": "nobody@acme.example"},
            "There is no person 'nobody@acme.example'; `pharos person list` shows all.",
        ),
        ({"id": 999}, "There is no deployment 999; `pharos deployments` shows the newest."),
        ({"id": 2**31}, "2147483648 is no ID."),
    ],
    ids=str,
)
async def test_invalid_approvals_are_refused(
    managed: ManagedProject, wanted: dict[str, Any], told: str
) -> None:
    number = await _wait(managed, ref="main")
    given = {"id": number, "by": MAINTAINER, **wanted}
    if "by" in wanted:
        given["revision"] = REVISION
    assert told in await managed.expect_refusal("deployments/approve", **given)
    assert (await managed.deployment(number)).status == "awaiting_approval"


async def test_an_approval_checks_the_gates_of_the_environment(managed: ManagedProject) -> None:
    number = await _wait(managed)
    wanted = {"id": number, "by": MAINTAINER, "revision": REVISION}
    await managed.act("environments/lock", id="production", reason="sale")
    line = await managed.expect_refusal("deployments/approve", **wanted)
    assert line == "The environment is locked by an operator: sale; `pharos unlock` takes the lock away."
    await managed.act("environments/unlock", id="production")
    await managed.act("environments/set", id="production", window="thu 09:00-16:00")
    line = await managed.expect_refusal("deployments/approve", **wanted)
    agreed = {"by": "deployer@acme.example", "approved_by": MAINTAINER}
    assert "takes deploys thu 09:00-16:00 UTC only; `pharos environment set --window`" in line
    await managed.act("environments/set", id="production", window=None, deploy_approval=False, **agreed)
    active = await managed.queue()
    line = await managed.expect_refusal("deployments/approve", **wanted)
    assert line == f"Deployment {active} of this environment is not finished. Wait for it, then ask again."
    await managed.act("deployments/cancel", id=active)
    await managed.act("deployments/approve", **wanted)


async def test_an_approval_and_its_record_are_written_together(
    managed: ManagedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The savepoint of the move is no commit of its own."""
    number = await _wait(managed)

    def fail(*_: Any) -> None:
        raise RuntimeError("the process ends here")

    monkeypatch.setattr(decisions, "add_log_line", fail)
    with pytest.raises(RuntimeError):
        await managed.act("deployments/approve", id=number, by=MAINTAINER, revision=REVISION)
    assert (await managed.deployment(number)).status == "awaiting_approval"


@pytest.mark.both_databases
async def test_of_many_concurrent_decisions_one_is_accepted(managed: ManagedProject) -> None:
    number = await _wait(managed)
    approve = {"id": number, "by": MAINTAINER, "revision": REVISION}
    told = await asyncio.gather(
        *(managed.act("deployments/approve", **approve) for _ in range(4)),
        *(managed.act("deployments/reject", id=number, by=MAINTAINER, reason="no") for _ in range(4)),
        return_exceptions=True,
    )
    (done,) = [one for one in told if isinstance(one, dict)]
    status = done["status"]
    for one in told:
        assert one is done or (
            isinstance(one, Refused) and f"Deployment {number} is {status}: only one" in str(one)
        )
    assert (
        await managed.count(AuditEntry, AuditEntry.action.in_(("deployment.approve", "deployment.reject")))
        == 1
    )


async def test_of_two_waiting_deployments_one_is_approved(managed: ManagedProject) -> None:
    """The other one's turn comes when the first is finished."""
    numbers = [await _wait(managed), await _wait(managed)]
    told = await asyncio.gather(
        *(managed.act("deployments/approve", id=n, by=MAINTAINER, revision=REVISION) for n in numbers),
        return_exceptions=True,
    )
    (queued,) = [one for one in told if isinstance(one, dict)]
    (refused,) = [one for one in told if isinstance(one, Refused)]
    assert f"Deployment {queued['id']} of this environment is not finished." in str(refused)


async def test_a_waiting_deployment_is_rejected(managed: ManagedProject) -> None:
    number = await _wait(managed)
    assert "Owner has asked for it" in await managed.expect_refusal(
        "deployments/reject", id=number, by="owner@acme.example", reason="no"
    )
    assert "A reason has 1 to 500" in await managed.expect_refusal(
        "deployments/reject", id=number, by=MAINTAINER
    )
    told = await managed.act("deployments/reject", id=number, by=MAINTAINER, reason="wrong branch")
    assert (told["status"], told["finished_at"]) == ("rejected", AT)
    assert (await _log(managed, number))[-1] == "Rejected by Maintainer: wrong branch."
    entry = (
        "deployment.reject",
        f"deployment {number}",
        MAINTAINER,
        "operator kim",
        {"reason": "wrong branch"},
    )
    assert (await managed.read_audit_log())[0] == entry
    line = await managed.expect_refusal("deployments/reject", id=number, by=MAINTAINER, reason="again")
    assert line == (
        f"Deployment {number} is rejected: only one that waits can be rejected; `pharos approvals` shows those that "
        "do."
    )


@pytest.mark.parametrize("status", list(DeploymentStatus))
async def test_cancelable_deployments_are_canceled(managed: ManagedProject, status: DeploymentStatus) -> None:
    number = await managed.queue()
    await managed.change(Deployment, number, status=status)
    if status in ("queued", "awaiting_approval", "deploying"):
        assert (await managed.act("deployments/cancel", id=number))["status"] == "canceled"
        entry = ("deployment.cancel", f"deployment {number}", None, "operator kim", {})
        assert (await managed.read_audit_log())[0] == entry
        assert (await _log(managed, number))[-1] == "Canceled."
    else:
        line = await managed.expect_refusal("deployments/cancel", id=number)
        assert line == (
            f"Deployment {number} is {status}: only what is queued, waits or is being built can be canceled."
        )
        assert (await managed.deployment(number)).status == status
