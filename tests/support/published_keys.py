"""An ingest key of an installation whose control plane does not run, stored and published as the API does it."""

from datetime import UTC, datetime

from sqlalchemy import select

from control_domain.database.engine import open_engine, open_sessions
from control_domain.projects.operations import create_ingest_key
from control_domain.published_keys import publish_keys
from control_domain.tables.projects import Environment
from storage_backends.key_directory.redis import open_redis_key_directory


async def create_published_key(database_url: str, redis_url: str, environment_id: str | None = None) -> str:
    """Return the secret of a new key of the environment with this ID, or of the first one."""
    engine = open_engine(database_url)
    now = datetime.now(UTC)
    async with open_sessions(engine)() as session, session.begin():
        query = select(Environment).order_by(Environment.id).limit(1)
        if environment_id is not None:
            query = query.where(Environment.public_id == environment_id)
        environment = (await session.execute(query)).scalar_one()
        secret = await create_ingest_key(session, environment, now)
    directory = await open_redis_key_directory(redis_url, follow=False)
    await publish_keys(open_sessions(engine), directory, now)
    await directory.close()
    await engine.dispose()
    return secret
