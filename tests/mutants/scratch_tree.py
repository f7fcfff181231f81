"""A copy of the working tree in which mutations are planted, with a virtual environment that imports from the copy."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.mutations import Mutation

ROOT = Path(__file__).parents[2]
# Not in /tmp: confined processes get a private, empty /tmp and could not reach the interpreter there.
_PARENT = ROOT / ".mutants"


class ScratchTree:
    """The copy at `root`. `python` is its interpreter."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python = root / ".venv" / "bin" / "python"

    @contextmanager
    def planted(self, mutation: Mutation) -> Iterator[None]:
        """Plant the fault in the copy until the block ends. Raises `ValueError` if it does not fit the source."""
        path = self.root / mutation.file
        text = path.read_text()
        self._write(path, mutation.mutate(text))
        try:
            yield
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # Python treats a compiled file as current if size and mtime in seconds equal those of the source.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()


@contextmanager
def scratch_tree() -> Iterator[ScratchTree]:
    """Copy the working tree, uncommitted changes included; the copy is removed when the block ends."""
    _PARENT.mkdir(exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="tree-", dir=_PARENT))
    # Tests run programs as users that must be able to import from it.
    root.chmod(0o755)
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
        if (ROOT / ".engines").exists():
            (root / ".engines").symlink_to(ROOT / ".engines")
        _link_environment(ROOT / ".venv", root / ".venv")
        yield ScratchTree(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _link_environment(source: Path, target: Path) -> None:
    """Create a virtual environment of links into `source`.

    Only files that name the tree are rewritten: scripts in `bin` and the path file of the editable install. So
    processes that tests start with `sys.executable` or `bin/pharos` import the mutated code too, with any environment
    variables and working directory.
    """
    (packages,) = source.glob("lib/python3.*/site-packages")
    linked = target / packages.relative_to(source)
    linked.mkdir(parents=True)
    (target / "bin").mkdir()
    shutil.copy(source / "pyvenv.cfg", target)
    for entry in packages.iterdir():
        if entry.name != "__pycache__":
            _link(entry, linked / entry.name, source.parent, target.parent)
    for entry in (source / "bin").iterdir():
        _link(entry, target / "bin" / entry.name, source.parent, target.parent)


def _link(entry: Path, target: Path, tree: Path, copy: Path) -> None:
    if entry.is_symlink():
        target.symlink_to(os.readlink(entry))
        return
    if entry.suffix == ".pth" or entry.parent.name == "bin":
        data = entry.read_bytes()
        if entry.suffix == ".pth" or data.startswith(b"#!"):
            target.write_bytes(data.replace(str(tree).encode(), str(copy).encode()))
            shutil.copymode(entry, target)
            return
    target.symlink_to(entry)
