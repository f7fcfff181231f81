"""Calls Pharos with the generated Python client, and prints the results as JSON.

Arguments: the API root and an API token.
"""

import json
import sys
from typing import Any

from pharos_client import AuthenticatedClient
from pharos_client.api.account import read_account
from pharos_client.api.analytics import create_goal, create_site
from pharos_client.api.deploy import list_variables, update_some_variables
from pharos_client.api.monitoring import create_heartbeat, create_ingest_key, list_heartbeats
from pharos_client.api.projects import (
    create_environment,
    create_project,
    delete_environment,
    delete_project,
    read_environment,
    update_environment,
)
from pharos_client.models import (
    CreateEnvironment,
    CreateEnvironmentType,
    CreateGoal,
    CreateHeartbeat,
    CreateProject,
    CreateSite,
    UpdateEnvironment,
    UpdateVariables,
    UpdateVariablesSet,
)


def main(url: str, token: str) -> None:
    with AuthenticatedClient(base_url=url, token=token) as client:
        seen: dict[str, Any] = {"account": read_account.sync(client=client).data.slug}
        project = create_project.sync(client=client, body=CreateProject(name="Python tour")).data
        body = CreateEnvironment(name="Staging", type_=CreateEnvironmentType.STAGING)
        environment = create_environment.sync(project.id, client=client, body=body).data
        seen["environment"] = [project.slug, environment.slug, environment.state]
        update_some_variables.sync(
            environment.id,
            client=client,
            body=UpdateVariables(set_=UpdateVariablesSet.from_dict({"APP_ENV": "staging"})),
        )
        variables = list_variables.sync(environment.id, client=client).data
        seen["variables"] = [variable.name for variable in variables.variables]

        etag = read_environment.sync_detailed(environment.id, client=client).headers["ETag"]
        changes = [
            update_environment.sync_detailed(
                environment.id, client=client, body=UpdateEnvironment(name=name), if_match=etag
            )
            for name in ("First", "Second")
        ]
        seen["changes"] = [change.status_code.value for change in changes]
        seen["problem"] = changes[1].parsed.type_

        create_heartbeat.sync(
            environment.id, client=client, body=CreateHeartbeat(name="backup", cron="0 3 * * *")
        )
        beats = list_heartbeats.sync(client=client, environment=environment.id)
        seen["heartbeats"] = [[beat.name, beat.state] for beat in beats.data]
        seen["ingest_key"] = create_ingest_key.sync(environment.id, client=client).data.key[:8]
        site = create_site.sync(
            project.id, client=client, body=CreateSite(name="Tour", domains=["https://python.example"])
        ).data
        goal = create_goal.sync(site.id, client=client, body=CreateGoal(name="Sale", event="purchase")).data
        seen["goal"] = goal.name
        refused = delete_project.sync_detailed(project.id, client=client)
        seen["refused"] = [refused.status_code.value, refused.parsed.type_]
        delete_environment.sync(environment.id, client=client)
        seen["gone"] = read_environment.sync(environment.id, client=client).type_
    print(json.dumps(seen))


main(*sys.argv[1:])
