"""The table of mutations fits the code: every fault can be planted, and every package has its share."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutations import Mutation, load_mutations

_ROOT = Path(__file__).parents[2]
_MUTATIONS = load_mutations()
_PACKAGES = (
    ("ingest_edge",),
    ("consumers",),
    ("storage_backends",),
    ("git_hosts", "control_domain", "control_workers", "control_api"),
    ("deployer",),
    ("analytics_queries",),
)


@pytest.mark.parametrize("mutation", _MUTATIONS, ids=lambda mutation: mutation.id)
def test_a_mutation_changes_its_file_and_still_compiles(mutation: Mutation) -> None:
    text = (_ROOT / mutation.file).read_text()
    mutated = mutation.mutate(text)
    assert mutated != text
    if mutation.file.endswith(".py"):
        compile(mutated, mutation.file, "exec")
    file, _, test = mutation.caught_by.partition("::")
    if file:
        assert f"def {test}(" in (_ROOT / file).read_text()


def test_every_package_has_enough_mutations() -> None:
    assert len({mutation.id for mutation in _MUTATIONS}) == len(_MUTATIONS) >= 60
    counts = Counter(mutation.package for mutation in _MUTATIONS)
    for packages in _PACKAGES:
        count = sum(counts[package] for package in packages)
        assert count >= 5, f"{' and '.join(packages)} have {count} mutations (expected 5 or more)"
