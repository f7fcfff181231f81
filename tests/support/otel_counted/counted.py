"""Send 200 spans, 100 log records and 10 metric points with the providers that are set up already."""

import logging

from opentelemetry import metrics, trace


def send() -> None:
    """Make the telemetry. Whoever calls this flushes the providers, or ends the program."""
    tracer = trace.get_tracer("counted")
    logger = logging.getLogger("counted")
    for number in range(1, 201):
        with tracer.start_as_current_span("counted"):
            if number <= 100:
                logger.warning("counted %d", number)
    orders = metrics.get_meter("counted").create_counter("counted.orders")
    for number in range(1, 11):
        orders.add(number, {"number": number})


if __name__ == "__main__":
    send()
