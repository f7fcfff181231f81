"""Read the configuration document, version 2. Its rules are those of the operator's commands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from control_domain.configurations.addresses import PROJECT
from control_domain.configurations.documents.bindings import BadBindings, Bindings
from control_domain.configurations.documents.document_limits import read_environments, read_sites
from control_domain.configurations.documents.read_deleted import read_deleted
from control_domain.configurations.documents.read_environment import Digest, read_environment
from control_domain.configurations.documents.read_settings import find_bound, read_name, read_settings
from control_domain.configurations.documents.read_site import read_site
from control_domain.configurations.resources import VERSION, ConfigurationDocument, DesiredResource
from control_domain.documents.faults import DocumentFault, Fault
from control_domain.documents.field import Field
from control_domain.documents.strict_yaml import collect_yaml
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


_KEYS = ("version", "project", "environments", "sites", "delete")
_PROJECT = {"name": read_name}


def read_configuration(text: str, bindings: Mapping[str, Any], digest: Digest) -> ConfigurationDocument:
    """What this YAML wants, with the bindings (a JSON object of any kind) in its texts; `digest` is that of a value in
    this project. Raises `DocumentFault`, `BadBindings`, and `BadConfiguration` where both have faults."""
    document, faults = collect_configuration(text, bindings, digest)
    faults.check()
    # Without any fault only a binding at fault makes it unreadable.
    assert document is not None
    return document


def collect_configuration(
    text: str, bindings: Mapping[str, Any], digest: Digest
) -> tuple[ConfigurationDocument | None, ConfigurationFaults]:
    """The document with something in place of what is at fault (None where nothing of it can be read), and all
    faults."""
    faults: list[Fault] = []
    given = Bindings(bindings)
    document = None
    try:
        root = collect_yaml(text, faults)
        if root is not None:
            document = _read_document(Field(given.put_into(root, faults), faults), digest)
    except DocumentFault as error:
        # So many faults that no more are looked for, or texts that are too long.
        faults = [*error.faults]
    return document, ConfigurationFaults(faults, given.find_faults())


def _read_document(root: Field, digest: Digest) -> ConfigurationDocument | None:
    """With something in place of what is at fault."""
    members = root.members()
    if members is None:
        return None
    version = members.get("version")
    if version is not None and not version.is_version(VERSION, "configuration"):
        # Another version has other keys: more need not be said.
        return None
    known = root.known_members(_KEYS, needed=("version",)) or {}
    resources = [*_read_resources(known, digest)]
    deleted = read_deleted(known["delete"], resources) if "delete" in known else {}
    return ConfigurationDocument(resources, deleted)


def _read_resources(known: Mapping[str, Field], digest: Digest) -> Iterator[DesiredResource]:
    if "project" in known:
        yield _read_project(known["project"])
    if "environments" in known:
        for slug, field in read_environments(known["environments"]).items():
            yield from read_environment(slug, field, digest)
    if "sites" in known:
        for name, field in read_sites(known["sites"]).items():
            yield read_site(name, field)


def _read_project(field: Field) -> DesiredResource:
    members = field.known_members(tuple(_PROJECT), allow_null=True) or {}
    return DesiredResource(
        PROJECT, read_settings(members, _PROJECT), field.node.line, find_bound(members, _PROJECT)
    )
