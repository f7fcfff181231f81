"""Pauses the garbage collector while much is imported."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Switch the garbage collector off, then keep it from scanning the objects that exist at the end.

    Imports create hundreds of thousands of objects that live until the process ends. Scanning them again and again
    takes a fifth of the CPU of an import.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
