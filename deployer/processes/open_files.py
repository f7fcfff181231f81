"""Raises the limit of open files of this process."""

import resource

_TARGET_LIMIT = 65_536


def raise_open_file_limit() -> None:
    """Raise the limit as far as allowed: each proxied request needs two files, and the usual limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _TARGET_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _TARGET_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def open_file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _TARGET_LIMIT if soft == resource.RLIM_INFINITY else soft
