"""All kinds of traffic, for `locust -f loadtests/locustfile.py`; `make load` sets the variables that it needs."""

from loadtests.ingest_users import BatchSender, ImpatientSender, SingleSender

__all__ = ["BatchSender", "ImpatientSender", "SingleSender"]
