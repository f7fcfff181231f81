"""Locust users that act as CI systems which deploy, and as people who look at deployments."""

import json
import os
import random
import time
import uuid
from typing import Any

from locust import between, task
from locust.contrib.fasthttp import FastHttpUser

from pipeline_contracts.deploy_states import FINAL_STATUSES

_PROJECT = os.environ["LOAD_PROJECT"]
_ENVIRONMENT = os.environ["LOAD_ENVIRONMENT"]
_HEADERS = {"Authorization": f"Bearer {os.environ['LOAD_API_TOKEN']}"}
_POLLS = 12
_POLL_SECONDS = 0.5


class _Caller(FastHttpUser):
    """Calls the deploy API. Locust counts unexpected responses as failures."""

    abstract = True

    def read(self, path: str, name: str) -> Any:
        """Return the document at this path. None if the status is not 200."""
        with self.client.get(path, headers=_HEADERS, name=name, catch_response=True) as answer:
            if answer.status_code == 200:
                return answer.json()
            answer.failure(f"status {answer.status_code}: {answer.text[:100]}")
            return None

    def read_log(self, deployment: int) -> None:
        """Read the end of a deployment's log. Each log has at least one line, which says that the deployment was
        queued."""
        document = self.read(f"/v1/deployments/{deployment}/log", "log of a deployment")
        if document is not None and not document["data"]["lines"]:
            self.count_wrong_response("log of a deployment", f"the log of deployment {deployment} is empty")

    def count_wrong_response(self, name: str, fault: str) -> None:
        """Count a successful response with wrong contents as a failure."""
        self.environment.events.request.fire(
            request_type="CHECK",
            name=name,
            response_time=0,
            response_length=0,
            exception=AssertionError(fault),
        )


class Pipeline(_Caller):
    """A CI system: it deploys a ref, waits for the result, and reads the log. If another deployment is in progress,
    the response is 409 with the ID of that deployment, and the user waits for that deployment instead. Some requests
    are repeated with the same idempotency key."""

    weight = 2
    wait_time = between(0.5, 2.0)

    @task
    def deploy(self) -> None:
        key = str(uuid.uuid4())
        body = json.dumps({"ref": "main"}).encode()
        number, is_new = self._request_deploy(key, body, "deploy")
        if number is None:
            return
        if is_new and random.random() < 0.3:
            again, _ = self._request_deploy(key, body, "deploy, sent again")
            if again != number:
                self.count_wrong_response("deploy, sent again", f"deployment {again} instead of {number}")
        self._wait_for(number)
        self.read_log(number)

    def _request_deploy(self, key: str, body: bytes, name: str) -> tuple[int | None, bool]:
        """Return the ID of the new deployment and True. If another caller's deployment is active, return its ID and
        False. The ID is None after an error, or if the active deployment has just ended."""
        headers = {**_HEADERS, "Content-Type": "application/json", "Idempotency-Key": key}
        path = f"/v1/environments/{_ENVIRONMENT}/deploy"
        with self.client.post(path, data=body, headers=headers, name=name, catch_response=True) as answer:
            if answer.status_code == 202:
                return answer.json()["data"]["id"], True
            if answer.status_code == 409:
                answer.request_meta["name"] = f"{name}: 409, one is active"
                answer.success()
                return answer.json()["active_deployment_id"], False
            answer.failure(f"status {answer.status_code}: {answer.text[:100]}")
            return None, False

    def _wait_for(self, number: int) -> None:
        for _ in range(_POLLS):
            document = self.read(f"/v1/deployments/{number}", "deployment")
            if document is None or document["data"]["status"] in FINAL_STATUSES:
                return
            time.sleep(_POLL_SECONDS)


class Developer(_Caller):
    """A person who pages through projects and deployments, opens a deployment, and sometimes scales or sets
    variables."""

    weight = 2
    wait_time = between(0.5, 2.0)

    @task(2)
    def browse(self) -> None:
        self.read("/v1/account", "account")
        self.read("/v1/me", "me")
        self.read(random.choice(("/v1/projects", "/v1/projects?limit=20")), "projects")
        self.read(f"/v1/projects/{_PROJECT}", "project")

    @task(4)
    def read_pages(self) -> None:
        shown: list[int] = []
        path = f"/v1/deployments?limit={random.choice((10, 20, 50, 100))}"
        for _ in range(random.randint(1, 4)):
            document = self.read(path, "page of deployments")
            if document is None:
                return
            shown += [deployment["id"] for deployment in document["data"]]
            if document["next_cursor"] is None:
                break
            path = f"{path.partition('&')[0]}&cursor={document['next_cursor']}"
        # Deployments that begin meanwhile must not repeat or move the entries of later pages.
        if shown != sorted(set(shown), reverse=True):
            self.count_wrong_response("page of deployments", f"not newest first, each once: {shown}")
        if shown:
            number = random.choice(shown)
            self.read(f"/v1/deployments/{number}", "deployment")
            self.read_log(number)

    @task(1)
    def scale(self) -> None:
        self._change("PATCH", "scale", {"replicas": random.randint(1, 4)}, (202,))

    @task(1)
    def set_variables(self) -> None:
        lines = [f'VARIABLE_{number}="{uuid.uuid4()}"' for number in range(random.randint(1, 30))]
        self._change("PUT", "variables", {"variables": "\n".join(lines)}, (200, 202))

    def _change(self, method: str, what: str, document: dict[str, Any], expected: tuple[int, ...]) -> None:
        headers = {**_HEADERS, "Content-Type": "application/json"}
        path = f"/v1/environments/{_ENVIRONMENT}/{what}"
        body = json.dumps(document).encode()
        with self.client.request(
            method, path, data=body, headers=headers, name=what, catch_response=True
        ) as answer:
            if answer.status_code not in expected:
                answer.failure(f"status {answer.status_code}: {answer.text[:100]}")
