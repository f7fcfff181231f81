"""How settings that are on or off are written on the command line."""

from typing import Final

SWITCH: Final = {"on": True, "off": False}
"""The words, and what is sent for them."""
