"""Reports queries on an account's tables that are bound to no account: `python -m tests.tooling.check_account_scope`.

A statement is bound if one of its own conditions compares a column that leads to the account (`Project.account_id`,
`Environment.project_id`, …) with a value, or the primary key with the key of an object that was loaded before.
Conditions of subqueries and joins bind nothing. If the account is known for another reason, or the query must read
every account, a comment that begins with `# Account scope:` says why. It covers the statement after it, or the whole
function if it is the first line of its body.

A constant of the module that is a query, or the columns of a table (`Project.__table__.c`), is checked where a function
uses it. The check does not follow branches: a condition that is added in only one branch counts. The check covers code
that callers of the API reach. Workers, the deployer and the operator's actions act for all accounts.
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
# These columns name the person who did something, not the owner of the row.
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
    tree = ast.parse(source)
    owned = {**owned, **_tables_of_columns(tree, owned)}
    markers = {
        number for number, line in enumerate(source.splitlines(), 1) if line.strip().startswith(MARKER)
    }
    covered = {number: _covered_lines(tree, number) for number in markers}
    module_names = _assignments(tree.body)
    constants = _constants(tree)
    helpers: dict[str, list[ast.AST]] = {function.name: [function] for function in _functions(tree)}
    found: list[Unbound] = []
    needed: set[int] = set()
    for function in _functions(tree):
        for unbound in _unbound_of(function, {**module_names, **helpers}, owned, constants):
            covering = {number for number, lines in covered.items() if unbound.line in lines}
            needed |= covering
            if not covering:
                found.append(unbound)
    found += [
        Unbound(number, f"no query needs the comment `{MARKER}`: remove it") for number in markers - needed
    ]
    return sorted(found)


def _covered_lines(tree: ast.Module, marker: int) -> range:
    """Return the lines of the statement after the marker, or of the function whose body begins with the marker."""
    after = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno > marker]
    if not after:
        return range(0)
    # Of several that begin in the same line, the outermost.
    first: ast.stmt = min(after, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    for function in ast.walk(tree):
        if isinstance(function, _Function) and first in function.body:
            before = function.body[: function.body.index(first)]
            if all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in before):
                first = function
    return range(first.lineno, (first.end_lineno or first.lineno) + 1)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.Module) -> Iterator[_Function]:
    """Return every function that is not inside another one."""
    for node in tree.body:
        if isinstance(node, _Function):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (member for member in node.body if isinstance(member, _Function))


def _tables_of_columns(tree: ast.Module, owned: OwnedTables) -> dict[str, frozenset[str]]:
    """Return the names of the module for `Table.__table__` and `Table.__table__.c`, with the columns of the table that
    lead to an account."""
    found = {}
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Attribute) and value.attr in ("c", "columns"):
            value = value.value
        if not (isinstance(value, ast.Attribute) and value.attr == "__table__"):
            continue
        if isinstance(value.value, ast.Name) and value.value.id in owned:
            found.update(dict.fromkeys(_targets(node), owned[value.value.id]))
    return found


class Constant(NamedTuple):
    """A query that is a constant of the module."""

    base: ast.Call
    """The call with which the query begins."""
    parts: Sequence[ast.AST]
    """The value of the constant, and those of the constants that it extends."""


def _constants(tree: ast.Module) -> dict[str, Constant]:
    """Return the queries that are constants of the module."""
    found: dict[str, Constant] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        calls = list(_chain_calls(node.value)) if node.value is not None else []
        if not calls:
            continue
        constant = None
        first = calls[-1]
        if _is_statement(first):
            constant = Constant(first, [node.value])
        elif isinstance(first.func, ast.Attribute) and isinstance(first.func.value, ast.Name):
            extended = found.get(first.func.value.id)
            constant = extended and Constant(extended.base, [*extended.parts, node.value])
        if constant is not None:
            found.update(dict.fromkeys(_targets(node), constant))
    return found


def _unbound_of(
    function: _Function,
    outside: Mapping[str, Sequence[ast.AST]],
    owned: OwnedTables,
    constants: Mapping[str, Constant],
) -> Iterator[Unbound]:
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    known = {**outside, **_assignments([function])}
    owned = {**owned, **_aliases(function, owned)}
    for call in ast.walk(function):
        if isinstance(call, ast.Name) and call.id in constants and isinstance(call.ctx, ast.Load):
            yield from _unbound_constant(call, constants[call.id], parents, known, owned)
        if not isinstance(call, ast.Call):
            continue
        if _is_statement(call):
            chain = _chain(call, parents)
            names = _tables_of(chain, known, owned)
            is_bound = _is_bound(chain, call, known, owned) or any(
                _is_bound(later, call, known, owned)
                for name in _targets(parents.get(chain))
                for later in known.get(name, ())
                if later is not chain
            )
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _LOADS:
            arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
            names = {node.id for node in arguments[:1] if isinstance(node, ast.Name) and node.id in owned}
            is_bound = len(arguments) > 1 and _is_of_loaded_object(arguments[1])
        else:
            continue
        if names and not is_bound:
            yield _unbound(call.lineno, names)


def _unbound_constant(
    name: ast.Name,
    constant: Constant,
    parents: Mapping[ast.AST, ast.AST],
    known: Mapping[str, Sequence[ast.AST]],
    owned: OwnedTables,
) -> Iterator[Unbound]:
    """Check a query of the module where a function uses it, with the conditions that the function adds."""
    chain = _chain(name, parents)
    later = [value for target in _targets(parents.get(chain)) for value in known.get(target, ())]
    # Without what other statements of the function add to the same constant.
    known = {other: values for other, values in known.items() if other != name.id}
    parts = [*constant.parts, chain]
    tables = {table for part in parts for table in _tables_of(part, known, owned)}
    if tables and not any(_is_bound(part, constant.base, known, owned) for part in (*parts, *later)):
        yield _unbound(name.lineno, tables)


def _unbound(line: int, names: Iterable[str]) -> Unbound:
    return Unbound(
        line,
        f"the query on {', '.join(sorted(names))} is bound to no account: add a condition, or say in a comment "
        f"`{MARKER} …` why none is needed",
    )


def _is_statement(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _STATEMENTS


def _chain(call: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.AST:
    """Return the whole chain that begins with the call: `select(…).where(…).order_by(…)`."""
    node: ast.AST = call
    while True:
        parent = parents.get(node)
        is_method = isinstance(parent, ast.Attribute) and parent.value is node
        is_called = isinstance(parent, ast.Call) and parent.func is node
        if parent is None or not (is_method or is_called):
            return node
        node = parent


def _chain_calls(chain: ast.AST) -> Iterator[ast.Call]:
    node = chain
    while isinstance(node, ast.Call):
        yield node
        if not isinstance(node.func, ast.Attribute):
            return
        node = node.func.value


def _targets(node: ast.AST | None) -> list[str]:
    """Return the names that an assignment gives its value."""
    targets: Sequence[ast.expr] = ()
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _tables_of(chain: ast.AST, known: Mapping[str, Sequence[ast.AST]], owned: OwnedTables) -> set[str]:
    """Return the owned tables that a statement selects from or changes; joined ones only if they are selected."""
    names: set[str] = set()
    for call in _chain_calls(chain):
        if not (_is_statement(call) or _method(call) == "select_from"):
            continue
        for argument in call.args:
            for node in _own_nodes(argument, call):
                if isinstance(node, ast.Name):
                    # `select(*COLUMNS)`
                    values = known.get(node.id, ()) if isinstance(argument, ast.Starred) else ()
                    within = [inner for value in values for inner in ast.walk(value)]
                    names |= {
                        inner.id
                        for inner in (node, *within)
                        if isinstance(inner, ast.Name) and inner.id in owned
                    }
    return names


def _method(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def _aliases(function: _Function, owned: OwnedTables) -> dict[str, frozenset[str]]:
    """Return the local names of `aliased(Table)`, with the columns of the table that lead to an account."""
    return {
        name: owned[value.args[0].id]
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(value := node.value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "aliased"
        and isinstance(value.args[0], ast.Name)
        and value.args[0].id in owned
        for name in _targets(node)
    }


def _assignments(nodes: Iterable[ast.AST]) -> dict[str, list[ast.AST]]:
    """Return the values that are assigned to each name, and the calls of its methods."""
    assigned: dict[str, list[ast.AST]] = {}
    for outer in nodes:
        for node in ast.walk(outer):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for name in _targets(node):
                    assigned.setdefault(name, []).append(node.value)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                assigned.setdefault(node.target.id, []).append(node.value)
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
            ):
                assigned.setdefault(node.func.value.id, []).append(node)
    return assigned


def _own_nodes(node: ast.AST, base: ast.Call | None) -> Iterator[ast.AST]:
    """Walk the node without the chains of other statements than the one that begins with `base`."""
    calls = list(_chain_calls(node))
    if calls and calls[-1] is not base and (_is_statement(calls[-1]) or _is_exists(calls[-1])):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _own_nodes(child, base)


def _is_exists(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "exists"


def _is_bound(
    node: ast.AST,
    base: ast.Call,
    known: Mapping[str, Sequence[ast.AST]],
    owned: OwnedTables,
    seen: frozenset[str] = frozenset(),
) -> bool:
    for inner in _own_nodes(node, base):
        if isinstance(inner, ast.Compare) and _compares_owner(inner, owned):
            return True
        if _is_list_of_owners(inner, known, owned):
            return True
        # Conditions may be in local names, or come from functions of the same module.
        if isinstance(inner, ast.Name) and inner.id not in seen:
            for value in known.get(inner.id, ()):
                if value is not node and _is_bound(value, base, known, owned, seen | {inner.id}):
                    return True
    return False


def _is_list_of_owners(node: ast.AST, known: Mapping[str, Sequence[ast.AST]], owned: OwnedTables) -> bool:
    """True for `Environment.project_id.in_(…)` with a list, or with a query that is bound itself."""
    if not isinstance(node, ast.Call) or _method(node) != "in_" or not isinstance(node.func, ast.Attribute):
        return False
    if not _owner_column(node.func.value, owned, with_key=True):
        return False
    values = known.get(node.args[0].id, ()) if isinstance(node.args[0], ast.Name) else node.args
    for value in values:
        calls = list(_chain_calls(value))
        if calls and _is_statement(calls[-1]) and not _is_bound(value, calls[-1], known, owned):
            return False
    return True


def _compares_owner(node: ast.Compare, owned: OwnedTables) -> bool:
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
        return False
    for column, value in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        if _owner_column(value, owned, with_key=True):
            # Both are columns: that joins two tables.
            continue
        if _owner_column(column, owned) or _is_account_of_caller(value):
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
    """True for `environment.project_id`: the object was looked up before. A plain name may be a value that a caller
    sent."""
    if isinstance(node, ast.Tuple):
        return any(_is_of_loaded_object(part) for part in node.elts)
    is_attribute = isinstance(node, ast.Attribute)
    while isinstance(node, ast.Attribute):
        node = node.value
    return is_attribute and isinstance(node, ast.Name) and node.id[:1].islower()


def _is_account_of_caller(node: ast.AST) -> bool:
    """True for `caller.account.id`; `caller.person.id` may be a member of several accounts."""
    attributes = set()
    while isinstance(node, ast.Attribute):
        attributes.add(node.attr)
        node = node.value
    return isinstance(node, ast.Name) and node.id == "caller" and "account" in attributes


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
