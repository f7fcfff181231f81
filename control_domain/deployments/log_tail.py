"""The last lines of a deployment's log as JSON."""

import orjson
from sqlalchemy import bindparam, func, select, type_coerce
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import String

from control_domain.deployments.describe import describe_line
from control_domain.deployments.operations import LOG_LINE_COLUMNS, LOG_LINES, tail_log
from control_domain.tables.deployments import DeploymentLine

_LINES = DeploymentLine.__table__.c
_OF_DEPLOYMENT = _LINES.deployment_id == bindparam("deployment")
_NEWEST = select(*LOG_LINE_COLUMNS).where(_OF_DEPLOYMENT).order_by(_LINES.id.desc()).limit(LOG_LINES)
_IN_ORDER = select(_NEWEST.subquery()).order_by("id").subquery()
_EARLIER = select(_LINES.id).where(_OF_DEPLOYMENT).order_by(_LINES.id.desc()).limit(1).offset(LOG_LINES)
# Built once: building a query takes as long as running it.
_AS_JSON = select(
    type_coerce(
        func.json_group_array(
            func.json_object("at", _IN_ORDER.c.at, "stream", _IN_ORDER.c.stream, "text", _IN_ORDER.c.text)
        ),
        String,
    ),
    _EARLIER.exists(),
)


async def tail_log_as_json(session: AsyncSession, deployment_id: int) -> tuple[bytes, bool]:
    """Return the last 1,000 lines in order, as a JSON list of documents in the form of `describe_line`, and whether
    there are earlier ones."""
    if session.get_bind().dialect.name == "sqlite":
        # SQLite runs in this process: fetching a thousand rows and encoding them takes twice as long.
        lines, is_truncated = (await session.execute(_AS_JSON, {"deployment": deployment_id})).one()
        return lines.encode(), is_truncated
    rows, is_truncated = await tail_log(session, deployment_id)
    return orjson.dumps([describe_line(row) for row in rows]), is_truncated
