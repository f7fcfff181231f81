"""A Celery application that reports its queue."""

import os

from celery import Celery

from pharos_client.celery import monitor
from tests.clients.python.queues import jobs

app = Celery("jobs", broker=os.environ["REDIS_URL"])
app.conf.update(task_default_queue="jobs", broker_connection_retry_on_startup=True)
monitor(app, interval=1.0)

wait_for_release = app.task(jobs.wait_for_release, name="wait_for_release")
fail = app.task(jobs.fail, name="fail")
