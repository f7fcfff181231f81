"""Files that cannot be read for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Within the context, opening the file fails with ELOOP; afterwards it is as before."""
    kept = path.rename(path.with_name(path.name + ".kept"))
    path.symlink_to(path)
    try:
        yield
    finally:
        path.unlink()
        kept.rename(path)
