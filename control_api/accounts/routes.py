"""`GET /v1/account` and `GET /v1/me`."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from control_api.accounts.operations import Caller
from control_api.authentication import api_token

router = APIRouter(tags=["Account"])


@router.get("/v1/account")
async def read_account(caller: Annotated[Caller, Depends(api_token("account:read"))]) -> dict[str, Any]:
    """The account that the token belongs to."""
    account = caller.account
    return {"data": {"id": account.public_id, "name": account.name, "slug": account.slug}}


@router.get("/v1/me")
async def read_me(caller: Annotated[Caller, Depends(api_token("deploy:read"))]) -> dict[str, Any]:
    """The person behind the token, and the organization with its plan."""
    account, person = caller.account, caller.person
    limits = {"ingest_events_per_second": account.ingest_rate, "ingest_burst": account.ingest_burst}
    return {
        "data": {
            "person": {"id": person.public_id, "name": person.name, "email": person.email},
            "organization": {
                "id": account.public_id,
                "name": account.name,
                "slug": account.slug,
                "plan": {"name": account.plan, "limits": limits},
            },
        }
    }
