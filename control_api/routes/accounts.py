"""`GET /v1/account` and `GET /v1/me`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from control_api.authentication import signed_in
from control_api.http.json_response import json_response
from control_domain.accounts.describe import summarize_account, summarize_person
from control_domain.accounts.operations import Caller

router = APIRouter(prefix="/api", tags=["Account"])


@router.get("/v1/account", response_model=None)
async def read_account(caller: Annotated[Caller, Depends(signed_in("account:read"))]) -> Response:
    """Return the account that the token belongs to."""
    return json_response({"data": summarize_account(caller.account)})


@router.get("/v1/me", response_model=None)
async def read_me(caller: Annotated[Caller, Depends(signed_in("deploy:read"))]) -> Response:
    """Return the person who owns the token, and the organization with its plan."""
    account = caller.account
    limits = {"ingest_events_per_second": account.ingest_rate, "ingest_burst": account.ingest_burst}
    organization = {**summarize_account(account), "plan": {"name": account.plan, "limits": limits}}
    return json_response({"data": {"person": summarize_person(caller.person), "organization": organization}})
