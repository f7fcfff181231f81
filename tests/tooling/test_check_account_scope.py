"""The check that every query on an account's table is bound to the account."""

import textwrap

import pytest

from tests.tooling.check_account_scope import find_unbound, main, read_owned_tables

_OWNED = {
    "Account": frozenset[str](),
    "Project": frozenset({"account_id"}),
    "Environment": frozenset({"project_id"}),
}
_BOUND = {
    "by the account": "query = select(Project).where(Project.account_id == caller.account.id)",
    "by a parent": "query = select(Environment).where(Environment.project_id == project_id)",
    "by a loaded object": "query = update(Environment).where(Environment.id == environment.id)",
    "by a condition in a name": "mine = Project.account_id == number\nquery = delete(Project).where(mine)",
    "by a condition that is added later": "q = select(Project)\nq = q.where(Project.account_id == account_id)",
    "by a subquery": "of = select(Project.id).where(Project.account_id == a)\n"
    "query = select(Environment).where(Environment.project_id.in_(of))",
    "by what was loaded": "project = session.get_one(Project, environment.project_id)",
    "no table of an account": "query = select(Person).where(Person.email == email)",
    "columns of the table itself": "query = select(PLACES.slug).where(PLACES.project_id == number)",
    "columns by another name": "query = select(*SHOWN).where(PROJECTS.account_id == bindparam('account'))",
    "a query of the module": "session.execute(OF_ACCOUNT, {'account': number})",
    "a query of the module and a condition": "query = ALL_PLACES.where(PLACES.project_id == number)",
    "a query of the module that is extended there": "session.execute(PLACES_OF_PROJECT)",
    "a query of the module and a later condition": "q = ALL_PLACES\nq = q.where(PLACES.project_id == number)",
    "said to be needless": "a = 1\n# Account scope: a worker cleans all accounts up.\nquery = delete(Project)",
    "a comment for the function": "# Account scope: a worker.\na = select(Project)\nb = select(Environment)",
}
_UNBOUND = {
    "no condition": "query = select(Project)",
    "the caller's number alone": "query = select(Project).where(Project.id == number)",
    "a join alone": "query = select(Environment).join(Project, Project.id == Environment.project_id)",
    "a name alone": "query = update(Environment).where(Environment.slug == slug).values(name=name)",
    "loaded by the caller's number": "project = session.get(Project, number)",
    "another query is bound": "a = select(Project).where(Project.account_id == b)\nc = select(Environment)",
    "another query of the session is bound": "session.execute(select(Project).where(Project.account_id == a))\n"
    "session.execute(select(Environment))",
    "only a subquery is bound": "q = select(Project).where(exists().where(Environment.project_id == number))",
    "a list of an unbound query": "mine = select(Role.project_id).where(Role.person_id == caller.person.id)\n"
    "q = select(Project).where(Project.id.in_(mine))",
    "the person alone": "q = select(Project).where(Project.made_by == caller.person.id)",
    "columns of a constant": "session.execute(select(*COLUMNS))",
    "columns of the table itself": "query = select(PLACES.slug).where(PLACES.slug == number)",
    "the key of the table itself": "query = update(PROJECTS).where(PROJECTS.id == number)",
    "columns of the table itself in a constant": "query = select(*SHOWN)",
    "a query of the module": "session.execute(ALL_PLACES)",
    "a query of the module and another condition": "q = ALL_PLACES.where(PLACES.slug == number)",
    "a query of the module that is bound to the person": "session.execute(OF_PERSON, {'person': number})",
    "a query of the module that is extended there": "session.execute(LONG_PLACES)",
    "a query of the module that is bound elsewhere": "a = ALL_PLACES.where(PLACES.project_id == 1)\nb = ALL_PLACES",
    "a join of columns": "q = select(PLACES.id).where(PLACES.project_id == PROJECTS.id)",
    "counted": "q = select(func.count()).select_from(Project)",
    "by another name": "other = aliased(Project)\nq = select(other)",
    "loaded by a keyword": "project = session.get(Project, ident=number)",
    "the comment is of another query": "a = 1\n# Account scope: x\nb = select(Project)\nc = select(Environment)",
    "nothing needs the comment": "# Account scope: nothing is read.\nreturn None",
}


_CONSTANTS = """
COLUMNS = (Project.slug,)
PROJECTS = Project.__table__.c
PLACES: Any = Environment.__table__.columns
SHOWN = (PROJECTS.slug, PROJECTS.name)
ALL_PLACES = select(PLACES.slug).order_by(PLACES.id)
LONG_PLACES = ALL_PLACES.where(PLACES.slug > "a")
PLACES_OF_PROJECT = LONG_PLACES.where(PLACES.project_id == bindparam("project"))
OF_ACCOUNT = select(Project).where(Project.account_id == bindparam("account"))
OF_PERSON = select(Project).join(Role, Role.project_id == Project.id).where(Role.person_id == bindparam("person"))
"""


def _check(body: str) -> list[str]:
    source = f"{_CONSTANTS}def read(session, caller, number):\n{textwrap.indent(body, '    ')}\n"
    return [message for _, message in find_unbound(source, _OWNED)]


@pytest.mark.parametrize("case", _BOUND)
def test_a_query_with_an_owner_is_accepted(case: str) -> None:
    assert _check(_BOUND[case]) == []


@pytest.mark.parametrize("case", _UNBOUND)
def test_a_query_without_an_owner_is_reported(case: str) -> None:
    assert len(_check(_UNBOUND[case])) == 1


def test_the_tables_of_accounts_are_known() -> None:
    owned = read_owned_tables()
    assert owned["Project"] == {"account_id"}
    assert {"project_id", "account_id", "environment_id"} <= owned["Deployment"]
    assert "Person" not in owned


def test_no_query_of_the_program_is_unbound(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0, capsys.readouterr().out
