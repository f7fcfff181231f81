"""The first steps in an account: `/v1/getting-started`."""

from typing import Annotated

from control_api.http.public_address import public_address
from control_api.management.telemetry_pages import read_store
from control_api.operations.access import At, at_account
from control_api.operations.router import OperationRouter
from control_domain.overview import getting_started
from control_domain.overview.getting_started import GettingStartedDocument
from control_domain.overview.visible import read_visible
from control_domain.tables.accounts import Account

operations = OperationRouter("Overview")

_Account = Annotated[At[Account], at_account("account:read")]


@operations.get("/v1/getting-started")
async def read_getting_started(at: _Account) -> GettingStartedDocument:
    """Read the first steps.

    A step is done once Pharos has received real data for it in one of the projects that you may read. The response
    also has the addresses and IDs that snippets need. `POST /v1/environments/{environment}/ingest-keys` shows the
    secret of a key once.
    """
    visible = await read_visible(at.session, at.caller)
    done = await getting_started.read_database_steps(at.session, at.caller)
    environments = await getting_started.list_snippet_environments(at.session, visible, at.now)
    sites = await getting_started.list_snippet_sites(at.session, visible)
    sample = await getting_started.find_sample_project(at.session, at.caller)
    store = at.column_store
    done |= await read_store(at, lambda: getting_started.read_stored_steps(store, visible))
    return {
        "base_url": public_address(at.request),
        "steps": getting_started.describe_steps(done),
        "environments": environments,
        "sites": sites,
        "sample_project": sample,
    }
