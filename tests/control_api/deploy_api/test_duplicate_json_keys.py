"""Every route refuses a JSON body with a duplicate key: a proxy may have checked the other value."""

import json

import pytest

from tests.control_api.deploy_api.route_table import ROWS, Row, address, body_of, credential
from tests.support.deploy_platform import Platform

_WITH_BODY = [row for row in ROWS if row.method in ("POST", "PUT", "PATCH") and row.body]


@pytest.mark.parametrize("row", _WITH_BODY, ids=str)
async def test_duplicate_json_key_is_named(shared: Platform, row: Row) -> None:
    before = await shared.contents()
    body = body_of(row, shared.acme)
    assert isinstance(body, dict)
    first, value = next(iter(body.items()))
    whole = json.dumps(body)[1:-1]
    given = json.dumps(first)
    for sent, field in (
        (f"{{{given}: {json.dumps(value)}, {whole}}}", first),
        (f'{{{whole}, "unknown": {{"x": [{{"y": 1, "y": 1}}]}}}}', "y"),
    ):
        answer = await shared.call(
            row.method, address(row, shared.acme), sent.encode(), token=credential(row, shared.acme)
        )
        assert (answer.status, answer.fields) == (422, [field])
        assert "more than once" in answer.json()["detail"]
    assert await shared.contents() == before
