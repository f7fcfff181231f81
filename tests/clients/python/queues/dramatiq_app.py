"""A Dramatiq application that reports its queue."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from pharos_client.dramatiq import PharosMiddleware
from tests.clients.python.queues import jobs

broker = RedisBroker(url=os.environ["REDIS_URL"])
broker.add_middleware(PharosMiddleware(interval=1.0))
dramatiq.set_broker(broker)

wait_for_release = dramatiq.actor(jobs.wait_for_release, queue_name="jobs", broker=broker)
fail = dramatiq.actor(jobs.fail, queue_name="jobs", max_retries=0, broker=broker)
