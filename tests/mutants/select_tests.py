"""Selects the tests for a mutation, and their order: the tests that most likely catch it come first."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from tests.mutants.mutations import Mutation


def order_tests(root: Path, mutation: Mutation, given: Sequence[str]) -> list[list[str]]:
    """Return groups of paths or node IDs below the `given` paths, to be run one after the other.

    First comes the test that is known to catch the mutation, then the test files and folders that mirror the mutated
    file's path, then the tests of its package. The last group is all of `given`.
    """
    known = [mutation.caught_by] if mutation.caught_by else []
    groups = [known, _mirrored(root, mutation), [f"tests/{mutation.package}"]]
    groups = [[path for one in group for path in _within(one, given)] for group in groups]
    existing = [[path for path in group if (root / path.partition("::")[0]).exists()] for group in groups]
    return [*(list(dict.fromkeys(group)) for group in existing if group), list(given)]


def _mirrored(root: Path, mutation: Mutation) -> list[str]:
    """Return test files named after the module or its folder, then the deepest folder that mirrors the module's."""
    path = PurePosixPath(mutation.file)
    folders = path.parent.parts
    names = [_words(path.stem), *([_words(folders[-1])] if len(folders) > 1 else [])]
    files = [str(file.relative_to(root)) for file in sorted((root / "tests").rglob("test_*.py"))]
    own = (f"tests/{mutation.package}/", "tests/contract/")
    named = [
        file for name in names for file in files if file.startswith(own) and name <= _words(Path(file).stem)
    ]
    mirror = next(
        (
            folder
            for depth in range(len(folders), 1, -1)
            if (root / (folder := "/".join(("tests", *folders[:depth])))).is_dir()
        ),
        None,
    )
    return [*named, *([mirror] if mirror is not None else [])]


def _words(name: str) -> set[str]:
    """Return the words of a file name, `test_daily_salts` → daily, salt; a plural counts as its singular."""
    return {word.removesuffix("s") for word in re.findall("[a-z0-9]+", name) if word != "test"}


def _within(test: str, given: Sequence[str]) -> list[str]:
    """Return `test` where it lies below a given path, else the given paths that lie below `test`."""
    return [test] if _is_below(test, given) else [path for path in given if _is_below(path, [test])]


def _is_below(test: str, paths: Iterable[str]) -> bool:
    return any(test == path or test.startswith((f"{path.rstrip('/')}/", f"{path}::")) for path in paths)
