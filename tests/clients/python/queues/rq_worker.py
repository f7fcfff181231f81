"""A worker class of an application, which reports more often than by default."""

import rq

from pharos_client.rq import PharosWorkerMixin


class QuickWorker(PharosWorkerMixin, rq.Worker):
    pharos_interval = 1.0
