"""The pages, by their file names in `docs/reference/`."""

from collections.abc import Callable
from typing import Final

from operator_cli.reference_pages.commands import write_commands
from operator_cli.reference_pages.values import write_metrics, write_settings

PAGES: Final[dict[str, Callable[[], str]]] = {
    "cli.md": write_commands,
    "settings.md": write_settings,
    "metrics.md": write_metrics,
}
