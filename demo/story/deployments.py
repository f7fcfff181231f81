"""Deploys the demo application for real: by people, by signed webhooks, and to previews; one release fails."""

import asyncio
import hashlib
import hmac
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from demo.api_client import ApiClient, ApiRefused
from demo.ledger import Ledger
from demo.story.people import client_of
from demo.story.releases import BRANCHES, INGRID, JONAS, NEXT_COMMITS

_FINAL = {"succeeded", "failed", "rejected", "canceled"}
_POLL_SECONDS = 0.5
_HOST_ID, _FULL_NAME = 4107, "lanterns/shop"
_PULL_REQUEST = 41


async def deploy_shop(
    owner: ApiClient, ledger: Ledger, project_id: str, production_id: str, repository: Mapping[str, Any]
) -> None:
    """Make the deployments that follow the past ones, one after the other, and wait for the end of each."""
    revisions = ledger.get("commits")
    ingrid, jonas = client_of(owner, ledger, INGRID), client_of(owner, ledger, JONAS)
    first, broken, fixed = (revisions[commit.version] for commit in NEXT_COMMITS)
    hooks = _Webhooks(owner, repository)
    for part, person, revision in (("first", ingrid, first), ("broken", jonas, broken)):
        if not ledger.has(f"deployed {part}"):
            await deploy_and_wait(person, production_id, revision)
            ledger.note(f"deployed {part}")
    if not ledger.has("pushed"):
        await hooks.send("ping", {"zen": "Light is half of a home."})
        await hooks.push("docs/wood-care", first, fixed, "Describe how to oil wood", "jonas")
        await hooks.push("main", broken, fixed, NEXT_COMMITS[2].subject, "ingrid")
        await hooks.push("develop", broken, fixed, NEXT_COMMITS[2].subject, "ingrid")
        await hooks.push("main", fixed, fixed, "Fix a typo in the imprint [skip deploy]", "jonas")
        ledger.note("pushed")
    await _wait(owner, production_id)
    await _wait(owner, ledger.get("staging"))
    if not ledger.has("previews"):
        for branch, commit in BRANCHES.items():
            if branch == "gift-cards":
                await hooks.open_pull_request(branch, revisions[commit.version], "ingrid")
            else:
                body = {"branch": branch, "variables_from": ledger.get("staging")}
                await jonas.post(f"/v1/projects/{project_id}/previews", body)
        ledger.note("previews")


async def deploy_and_wait(person: ApiClient, environment_id: str, revision: str) -> None:
    """Deploy a commit, and wait for the end of the deployment."""
    try:
        await person.post(f"/v1/environments/{environment_id}/deploy", {"ref": revision})
    except ApiRefused as refusal:
        # 409: an earlier start, which was interrupted, has queued it.
        if refusal.status != 409:
            raise
    await _wait(person, environment_id)


async def _wait(person: ApiClient, environment_id: str) -> None:
    """Wait until the newest deployment of the environment has ended."""
    await wait_for_newest(
        person, f"/v1/environments/{environment_id}/deployments", lambda status: status in _FINAL
    )


async def wait_for_newest(person: ApiClient, path: str, has_ended: Callable[[str], bool]) -> None:
    """Wait until the newest object in a list has a final status, or until the list is empty."""
    while True:
        found = await person.get(f"{path}?limit=1")
        if not found or has_ended(found[0]["status"]):
            return
        await asyncio.sleep(_POLL_SECONDS)


class _Webhooks:
    """Sends deliveries as GitHub does, signed with the repository's secret."""

    def __init__(self, owner: ApiClient, repository: Mapping[str, Any]) -> None:
        self._client, self._repository = owner.with_token(""), repository

    async def push(self, branch: str, before: str, after: str, message: str, pusher: str) -> None:
        await self.send(
            "push",
            {
                "ref": f"refs/heads/{branch}",
                "before": before,
                "after": after,
                "created": False,
                "deleted": False,
                "head_commit": {"id": after, "message": message},
                "pusher": {"name": pusher},
            },
        )

    async def open_pull_request(self, branch: str, revision: str, login: str) -> None:
        repository = self._repository_member()
        await self.send(
            "pull_request",
            {
                "action": "opened",
                "number": _PULL_REQUEST,
                "pull_request": {
                    "head": {"ref": branch, "sha": revision, "repo": repository},
                    "base": {"ref": "main", "repo": repository},
                    "user": {"login": login},
                },
                "sender": {"login": login},
            },
        )

    async def send(self, event: str, payload: dict[str, Any]) -> None:
        body = orjson.dumps({**payload, "repository": self._repository_member()})
        digest = hmac.new(self._repository["secret"].encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-Hub-Signature-256": f"sha256={digest}",
        }
        await self._client.send("POST", f"/repositories/{self._repository['id']}/webhook", body, headers)

    def _repository_member(self) -> dict[str, Any]:
        return {"id": _HOST_ID, "full_name": _FULL_NAME}
