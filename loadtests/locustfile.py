"""Imports all kinds of users for `locust -f loadtests/locustfile.py`. `make load` sets the variables that they
need."""

from loadtests.deploy_users import Developer, Pipeline
from loadtests.ingest_users import BatchSender, ImpatientSender, SingleSender
from loadtests.monitor_users import CronJob, QueueReporter, TopOfTheHour
from loadtests.otlp_users import OtlpExporter
from loadtests.site_users import Browser, Dashboard

__all__ = [
    "BatchSender",
    "Browser",
    "CronJob",
    "Dashboard",
    "Developer",
    "ImpatientSender",
    "OtlpExporter",
    "Pipeline",
    "QueueReporter",
    "SingleSender",
    "TopOfTheHour",
]
