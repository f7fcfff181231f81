"""Send 200 spans, 100 log records and 20 exceptions with Sentry's SDK, which is set up already."""

import sentry_sdk


def send() -> None:
    """Make the telemetry, and wait until it is sent."""
    for number in range(1, 21):
        with sentry_sdk.start_transaction(op="task", name="counted"):
            for _ in range(9):
                with sentry_sdk.start_span(op="task", name="counted step"):
                    pass
            for log in range(number * 5 - 4, number * 5 + 1):
                sentry_sdk.logger.info("counted {log}", log=log)
            try:
                raise ValueError(f"counted {number}")
            except ValueError as error:
                sentry_sdk.capture_exception(error)
    sentry_sdk.flush(60)
