"""How much each record of a resource and a scope will carry of them."""

import msgspec

from pipeline_contracts.otlp.values import Resource, Scope

LARGE = 64 * 1024
"""Bytes of a body below which that need not be asked: even the worst becomes a few megabytes."""

_encode = msgspec.json.Encoder().encode


def shared_size(resource: Resource | None, scope: Scope | None) -> int:
    """Bytes of both as JSON, about."""
    return len(_encode((resource, scope)))
