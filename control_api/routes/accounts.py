"""`GET /v1/account` and `GET /v1/me`."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from control_api.authentication import api_token
from control_domain.accounts.describe import summarize_account, summarize_person
from control_domain.accounts.operations import Caller

router = APIRouter(prefix="/api", tags=["Account"])


@router.get("/v1/account")
async def read_account(caller: Annotated[Caller, Depends(api_token("account:read"))]) -> dict[str, Any]:
    """The account that the token belongs to."""
    return {"data": summarize_account(caller.account)}


@router.get("/v1/me")
async def read_me(caller: Annotated[Caller, Depends(api_token("deploy:read"))]) -> dict[str, Any]:
    """The person who owns the token, and the organization with its plan."""
    account = caller.account
    limits = {"ingest_events_per_second": account.ingest_rate, "ingest_burst": account.ingest_burst}
    return {
        "data": {
            "person": summarize_person(caller.person),
            "organization": {
                **summarize_account(account),
                "plan": {"name": account.plan, "limits": limits},
            },
        }
    }
