"""All that is wrong with a configuration document and its bindings, collected so that one answer names everything."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from control_domain.configurations.documents.bindings import BadBindings
from control_domain.documents.faults import DocumentFault, Fault
from pipeline_contracts.errors import MAX_FIELD_ERRORS


class BadConfiguration(DocumentFault):
    """A document with faults whose bindings have faults too: `binding_faults`, as `BadBindings` has them."""

    def __init__(self, faults: Sequence[Fault], binding_faults: Sequence[tuple[str, str]]) -> None:
        super().__init__(faults)
        self.binding_faults = tuple(binding_faults[: MAX_FIELD_ERRORS - len(self.faults)])


@dataclass(slots=True)
class ConfigurationFaults:
    """Faults of the document and of its bindings."""

    document: list[Fault] = field(default_factory=list)
    bindings: list[tuple[str, str]] = field(default_factory=list)

    def check(self) -> None:
        """Raises `DocumentFault`, `BadBindings`, or `BadConfiguration` where both have faults."""
        if self.document and self.bindings:
            raise BadConfiguration(self.document, self.bindings)
        if self.document:
            raise DocumentFault(self.document)
        if self.bindings:
            raise BadBindings(self.bindings)
