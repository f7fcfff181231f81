"""A small application with the unmodified Sentry SDK for Python. Argument: the DSN.

Prints the IDs that it made as JSON. `python -m tests.support.sentry_app DSN`.
"""

import json
import logging
import sys
from typing import Any

import sentry_sdk
from sentry_sdk.crons import monitor

_IGNORED = "a warning that only breadcrumbs keep"


def _pay(order: dict[str, Any]) -> int:
    amount: int = order["card"]["amount"]
    return amount


def _fail(number: int) -> str | None:
    try:
        try:
            _pay({"card": None})
        except TypeError as error:
            raise ValueError(f"order {number} failed") from error
    except ValueError as error:
        return sentry_sdk.capture_exception(error)
    return None


@monitor(monitor_slug="nightly-report")
def _report() -> None:
    pass


def main(dsn: str) -> None:
    sentry_sdk.init(
        dsn=dsn,
        release="shop@1.2.3",
        environment="staging",
        server_name="web-1",
        traces_sample_rate=1.0,
        enable_logs=True,
        auto_session_tracking=True,
    )
    sentry_sdk.set_user({"id": "user-7", "email": "ada@shop.example"})
    sentry_sdk.set_tag("shop.region", "eu")
    with sentry_sdk.start_transaction(op="http.server", name="GET /orders") as transaction:
        logging.getLogger("shop").warning(_IGNORED)
        with sentry_sdk.start_span(op="db", name="SELECT * FROM orders") as span:
            span.set_data("db.system", "postgresql")
        errors = [_fail(17), _fail(18)]
        message = sentry_sdk.capture_message("the stock is low", level="warning")
        sentry_sdk.logger.info("order {number} placed", number=17)
        transaction.set_status("internal_error")
    _report()
    sentry_sdk.flush(60)
    print(
        json.dumps(
            {
                "errors": errors,
                "message": message,
                "trace_id": transaction.trace_id,
                "span_id": transaction.span_id,
                "child_id": span.span_id,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
