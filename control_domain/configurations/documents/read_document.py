"""Read the configuration document, version 2. Its rules are those of the operator's commands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from control_domain.configurations.addresses import NOTIFICATIONS, PROJECT, RULES
from control_domain.configurations.documents.bindings import BadBindings, Bindings
from control_domain.configurations.documents.document_limits import (
    read_environments_within_limits,
    read_rules_within_limits,
    read_sites_within_limits,
)
from control_domain.configurations.documents.read_deleted import read_deleted
from control_domain.configurations.documents.read_environment import Digest, read_environment
from control_domain.configurations.documents.read_rule import read_rule
from control_domain.configurations.documents.read_settings import find_bound_fields, read_name, read_settings
from control_domain.configurations.documents.read_site import read_site
from control_domain.configurations.resources import VERSION, ConfigurationDocument, DesiredResource
from control_domain.documents.faults import DocumentFault, Fault
from control_domain.documents.field import Field
from control_domain.documents.strict_yaml import collect_yaml
from pipeline_contracts.errors import MAX_FIELD_ERRORS


class BadConfiguration(DocumentFault):
    """Faults of a document and of its bindings; `binding_faults` as in `BadBindings`."""

    def __init__(self, faults: Sequence[Fault], binding_faults: Sequence[tuple[str, str]]) -> None:
        super().__init__(faults)
        self.binding_faults = tuple(binding_faults[: MAX_FIELD_ERRORS - len(self.faults)])


@dataclass(slots=True)
class ConfigurationFaults:
    """Faults of the document and of its bindings."""

    document: list[Fault] = field(default_factory=list)
    bindings: list[tuple[str, str]] = field(default_factory=list)

    def check(self) -> None:
        """Raise `DocumentFault`, `BadBindings`, or `BadConfiguration` if both have faults."""
        if self.document and self.bindings:
            raise BadConfiguration(self.document, self.bindings)
        if self.document:
            raise DocumentFault(self.document)
        if self.bindings:
            raise BadBindings(self.bindings)


_KEYS = ("version", "project", "environments", "sites", NOTIFICATIONS, "delete")
_PROJECT = {"name": read_name}


def read_configuration(text: str, bindings: Mapping[str, Any], digest: Digest) -> ConfigurationDocument:
    """Read the YAML with the values of the bindings (any JSON object) in its texts.

    `digest` returns the project's keyed digest of a value. Raises `DocumentFault`, `BadBindings`, and
    `BadConfiguration` if both have faults.
    """
    document, faults = collect_configuration(text, bindings, digest)
    faults.check()
    # Without faults the document is readable.
    assert document is not None
    return document


def collect_configuration(
    text: str, bindings: Mapping[str, Any], digest: Digest
) -> tuple[ConfigurationDocument | None, ConfigurationFaults]:
    """Return the document, with arbitrary values in place of faulty ones, and all faults; None if nothing is
    readable."""
    faults: list[Fault] = []
    checked_bindings = Bindings(bindings)
    document = None
    try:
        root = collect_yaml(text, faults)
        if root is not None:
            substituted = checked_bindings.substitute(root, faults)
            document = _read_document(Field(substituted, faults), digest)
    except DocumentFault as error:
        # Too many faults to continue, or texts that are too long.
        faults = [*error.faults]
    return document, ConfigurationFaults(faults, checked_bindings.find_faults())


def _read_document(root: Field, digest: Digest) -> ConfigurationDocument | None:
    members = root.members()
    if members is None:
        return None
    version = members.get("version")
    if version is not None and not version.is_version(VERSION, "configuration"):
        # Another version has other keys: further faults would mislead.
        return None
    known = root.known_members(_KEYS, needed=("version",)) or {}
    resources = [*_read_resources(known, digest)]
    deleted = read_deleted(known["delete"], resources) if "delete" in known else {}
    return ConfigurationDocument(resources, deleted)


def _read_resources(known: Mapping[str, Field], digest: Digest) -> Iterator[DesiredResource]:
    if "project" in known:
        yield _read_project(known["project"])
    if "environments" in known:
        for slug, field in read_environments_within_limits(known["environments"]).items():
            yield from read_environment(slug, field, digest)
    if "sites" in known:
        for name, field in read_sites_within_limits(known["sites"]).items():
            yield read_site(name, field)
    if NOTIFICATIONS in known:
        key = RULES[-1]
        sections = known[NOTIFICATIONS].known_members((key,), allow_null=True) or {}
        if key in sections:
            for name, field in read_rules_within_limits(sections[key]).items():
                yield read_rule(name, field)


def _read_project(field: Field) -> DesiredResource:
    members = field.known_members(tuple(_PROJECT), allow_null=True) or {}
    return DesiredResource(
        PROJECT, read_settings(members, _PROJECT), field.node.line, find_bound_fields(members, _PROJECT)
    )
