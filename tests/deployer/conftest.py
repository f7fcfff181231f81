"""The control plane's database with two accounts in it, on both kinds."""

from tests.support.prepared_platform import platform, prepared

__all__ = ["platform", "prepared"]
