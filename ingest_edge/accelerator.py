"""The optional accelerator: validates a body in one pass, where Python's decoders build an object for each value.

It accepts bodies that are entirely valid and need no repair. The decoders validate all other bodies: they are the
reference, and write all error messages. The sources of the accelerator are in `accelerator/`.
"""

import importlib
import logging
from typing import NamedTuple, Protocol, cast

logger = logging.getLogger(__name__)

MODULE = "pharos_accelerator"
INTERFACE = 1
"""The version of the functions below. An installed module of another version is not used."""


class Measured(NamedTuple):
    """A valid OTLP request, as the accelerator returns it (a plain tuple)."""

    records: int
    """Spans, log records or data points."""
    shared_bytes: int
    """Upper bound of the bytes that all rows repeat: resources, scopes, descriptions of metrics."""
    children: int
    """Events and links of spans, exemplars of data points."""
    numbers: int
    """Bounds of histograms, and the numbers of quantiles."""


class Accelerator(Protocol):
    """The functions of the extension module. Each returns None if it is not sure that the body is valid: more than
    these numbers of records, bytes of a record, or resources and scopes, are never valid."""

    INTERFACE: int
    VERSION: str

    def validate_batch(self, body: bytes, event_bytes: int, events: int, /) -> tuple[str, int] | None:
        """Return (batch ID, number of events)."""

    def count_panics(self) -> int:
        """Return the number of bodies that a defect in the module kept it from validating."""

    def validate_traces_json(self, body: bytes, records: int, /) -> Measured | None: ...
    def validate_logs_json(self, body: bytes, records: int, record_bytes: int, /) -> Measured | None: ...
    def validate_metrics_json(self, body: bytes, records: int, /) -> Measured | None: ...
    def validate_traces_protobuf(self, body: bytes, records: int, groups: int, /) -> Measured | None: ...
    def validate_logs_protobuf(
        self, body: bytes, records: int, groups: int, record_bytes: int, /
    ) -> Measured | None: ...
    def validate_metrics_protobuf(self, body: bytes, records: int, groups: int, /) -> Measured | None: ...


def load_accelerator(setting: str) -> Accelerator | None:
    """Return the accelerator, unless the setting is "off" or none is installed. Log whether the accelerator or Python
    validates bodies."""
    accelerator, description = find_accelerator(setting)
    logger.info("request bodies are validated by %s", description)
    return accelerator


def find_accelerator(setting: str) -> tuple[Accelerator | None, str]:
    """Return the accelerator that `PHAROS_ACCELERATOR` allows, if any, and a description of what validates bodies."""
    if setting == "off":
        return None, "Python (PHAROS_ACCELERATOR is off)"
    try:
        module = importlib.import_module(MODULE)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == MODULE:
            return None, "Python (no accelerator is installed: `make accelerator` builds one)"
        return None, f"Python (the accelerator cannot be loaded: {error})"
    # The leftover folder of a removed module can be imported too, as an empty package.
    interface, version = getattr(module, "INTERFACE", "none"), getattr(module, "VERSION", "without a version")
    if interface != INTERFACE:
        return None, (
            f"Python (the accelerator {version} has interface {interface} instead of {INTERFACE}: "
            "`make accelerator` builds another)"
        )
    return cast(Accelerator, module), f"the accelerator {version}"
