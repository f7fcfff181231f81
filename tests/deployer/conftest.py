"""The control plane's database with two accounts in it, on both kinds."""

from tests.support.cheap_engines import engines_are_cheap
from tests.support.prepared_platform import platform, prepared

__all__ = ["engines_are_cheap", "platform", "prepared"]
