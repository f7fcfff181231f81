"""Reports queries on an account's tables that are bound to no account: `python -m tests.tooling.check_account_scope`.

A statement is bound if one of its conditions compares a column that leads to the account (`Project.account_id`,
`Environment.project_id`, …) with a value, or the primary key with the key of an object that was loaded before. Where
the account is known for another reason, or the query has to see every account, a comment in the function that begins
with `# Account scope:` says why.
"""

import ast
import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from control_domain import tables
from control_domain.database.base import Base

ROOT = Path(__file__).parents[2]
PACKAGES = ("control_domain", "control_api")
MARKER = "# Account scope:"
# Migrations are about the schema, and run for all accounts.
_EXEMPT = ("control_domain/database/migrations/", "control_domain/tables/")
_STATEMENTS = ("select", "update", "delete")
_LOADS = ("get", "get_one")
# They name who did something, not to whom the row belongs.
_NOT_OWNERS = ("people",)

OwnedTables = Mapping[str, frozenset[str]]
"""The attributes of columns that lead to an account, by the class of the table."""


class Unbound(NamedTuple):
    """A query that is bound to no account, or a marker that no query needs."""

    line: int
    message: str


def read_owned_tables() -> OwnedTables:
    """Return all tables whose rows belong to an account, directly or through other tables."""
    for module in pkgutil.iter_modules(tables.__path__):
        importlib.import_module(f"{tables.__name__}.{module.name}")
    owned: dict[str, set[str]] = {"accounts": set()}
    while True:
        found = {
            (table.name, column.name)
            for table in Base.metadata.tables.values()
            for column in table.columns
            for key in column.foreign_keys
            if key.column.table.name in owned and key.column.table.name not in _NOT_OWNERS
        }
        if all(column in owned.get(table, ()) for table, column in found):
            break
        for table, column in found:
            owned.setdefault(table, set()).add(column)
    return {
        mapper.class_.__name__: frozenset(
            attribute.key
            for attribute in mapper.column_attrs
            if any(column.name in owned[table.name] for column in attribute.columns)
        )
        for mapper in Base.registry.mappers
        if (table := mapper.local_table) is not None and getattr(table, "name", None) in owned
    }


def find_unbound(source: str, owned: OwnedTables) -> list[Unbound]:
    """Return the unbound queries of a module, and its markers that no query needs."""
    lines = source.splitlines()
    found: list[Unbound] = []
    used: set[int] = set()
    tree = ast.parse(source)
    helpers = {function.name: [function] for function in _functions(tree)}
    for function in _functions(tree):
        markers = [
            number
            for number in range(function.lineno, (function.end_lineno or function.lineno) + 1)
            if lines[number - 1].strip().startswith(MARKER)
        ]
        unbound = list(_unbound_of(function, helpers, owned))
        if unbound and markers:
            used.update(markers)
        else:
            found += unbound
    for number, line in enumerate(lines, 1):
        if line.strip().startswith(MARKER) and number not in used:
            found.append(Unbound(number, f"no query needs the comment `{MARKER}`: remove it"))
    return sorted(found)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.Module) -> Iterator[_Function]:
    """Every function that is not inside another one."""
    for node in tree.body:
        if isinstance(node, _Function):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (member for member in node.body if isinstance(member, _Function))


def _unbound_of(
    function: _Function, helpers: Mapping[str, Sequence[ast.AST]], owned: OwnedTables
) -> Iterator[Unbound]:
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    # Conditions may be in local names, or come from functions of the same module.
    known = {**helpers, **_assignments(function)}
    for call in ast.walk(function):
        if not isinstance(call, ast.Call):
            continue
        names = _tables_of(call, owned)
        if not names:
            continue
        if isinstance(call.func, ast.Name):
            is_bound = _is_bound(_statement(call, parents), known, owned)
        else:
            is_bound = _is_of_loaded_object(call.args[1])
        if not is_bound:
            tables_text = ", ".join(sorted(names))
            yield Unbound(
                call.lineno,
                f"the query on {tables_text} is bound to no account: add a condition, or say in a comment "
                f"`{MARKER} …` why none is needed",
            )


def _tables_of(call: ast.Call, owned: OwnedTables) -> set[str]:
    """The owned tables that a statement selects or changes, or that a session loads from."""
    if isinstance(call.func, ast.Name) and call.func.id in _STATEMENTS:
        inside: Iterable[ast.AST] = (node for argument in call.args for node in ast.walk(argument))
    elif isinstance(call.func, ast.Attribute) and call.func.attr in _LOADS and len(call.args) == 2:
        inside = call.args[:1]
    else:
        return set()
    return {node.id for node in inside if isinstance(node, ast.Name) and node.id in owned}


def _statement(call: ast.Call, parents: Mapping[ast.AST, ast.AST]) -> ast.AST:
    """Return the whole chain that begins with the call: `select(…).where(…).order_by(…)`."""
    node: ast.AST = call
    while isinstance(parents.get(node), ast.Attribute | ast.Call | ast.keyword | ast.Assign | ast.Compare):
        node = parents[node]
    return node


def _assignments(function: _Function) -> dict[str, list[ast.AST]]:
    """What each local name is assigned, and calls of its methods."""
    assigned: dict[str, list[ast.AST]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(node.value)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            assigned.setdefault(node.func.value.id, []).append(node)
    return assigned


def _is_bound(
    statement: ast.AST,
    known: Mapping[str, Sequence[ast.AST]],
    owned: OwnedTables,
    seen: frozenset[str] = frozenset(),
) -> bool:
    for node in ast.walk(statement):
        if isinstance(node, ast.Compare) and _compares_owner(node, owned):
            return True
        if _is_list_of_owners(node, owned):
            return True
        if isinstance(node, ast.Name) and node.id not in seen:
            for value in known.get(node.id, ()):
                if value is not statement and _is_bound(value, known, owned, seen | {node.id}):
                    return True
    return False


def _is_list_of_owners(node: ast.AST, owned: OwnedTables) -> bool:
    """True for `Environment.project_id.in_(…)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "in_" and _owner_column(node.func.value, owned, with_key=True)


def _compares_owner(node: ast.Compare, owned: OwnedTables) -> bool:
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
        return False
    for column, value in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        if _owner_column(value, owned, with_key=True):
            # Both are columns: that joins two tables.
            continue
        if _owner_column(column, owned) or _is_of_caller(value):
            return True
        if _owner_column(column, owned, with_key=True) and _is_of_loaded_object(value):
            return True
    return False


def _owner_column(node: ast.AST, owned: OwnedTables, *, with_key: bool = False) -> bool:
    """True for `Project.account_id`, which leads to the account; `with_key`: for `Project.id` as well."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    columns = owned.get(node.value.id)
    return columns is not None and (node.attr in columns or (with_key and node.attr in ("id", "public_id")))


def _is_of_loaded_object(node: ast.AST) -> bool:
    """True for `environment.project_id`: the object was looked up before. A plain name may be what a caller sent."""
    if isinstance(node, ast.Tuple):
        return any(_is_of_loaded_object(part) for part in node.elts)
    is_attribute = isinstance(node, ast.Attribute)
    while isinstance(node, ast.Attribute):
        node = node.value
    return is_attribute and isinstance(node, ast.Name) and node.id[:1].islower()


def _is_of_caller(node: ast.AST) -> bool:
    """True for `caller.person.id`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "caller"


def main() -> int:
    """Print every unbound query. Return the exit code."""
    owned = read_owned_tables()
    count = 0
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(_EXEMPT):
                continue
            for line, message in find_unbound(path.read_text(), owned):
                print(f"{name}:{line}: {message}")
                count += 1
    print(f"{count} queries are bound to no account." if count else "All queries are bound to an account.")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
