"""Which visits a report keeps."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class VisitFilters:
    """Texts that a visit has to have; empty ones keep all. `path`: it viewed this page, at any time."""

    path: str = ""
    source: str = ""
    campaign: str = ""
    device: str = ""
    country: str = ""

    def parameters(self) -> dict[str, str]:
        """What the SQL is bound to."""
        return asdict(self)
