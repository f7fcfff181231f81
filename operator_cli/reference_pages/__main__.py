"""Write the pages again: `python -m operator_cli.reference_pages`, which `make docs` runs."""

import sys
from pathlib import Path

from operator_cli.reference_pages.all_pages import PAGES

_FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def main() -> None:
    """Write the pages that have changed, and print their names."""
    if not _FOLDER.is_dir():
        sys.exit("This works only in a clone of the repository: docs/reference is not there.")
    for name, write in PAGES.items():
        path, text = _FOLDER / name, write()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"Wrote docs/reference/{name}")


if __name__ == "__main__":
    main()
