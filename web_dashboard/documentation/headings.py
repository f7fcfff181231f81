"""Anchors of headings, as GitHub makes them: links work there and on the pages."""

import re
from collections import Counter


class Anchors:
    """Makes the anchors of one page, each of them once."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()

    def make(self, heading: str) -> str:
        """Return the anchor of the next heading, whose text has no markup: `Ping URLs` becomes `ping-urls`."""
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        uses = self._uses[anchor]
        self._uses[anchor] += 1
        return f"{anchor}-{uses}" if uses else anchor
