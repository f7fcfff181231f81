"""Which pages, sources, links and so on had how many visitors? A part of other questions."""

from pathlib import Path

from storage_backends.sql_files import read_sql

_LISTS = read_sql(__file__)
_OPEN = """(
    SELECT * FROM pharos.open_visit_days
    WHERE site_id = {site_id:UInt64} AND day >= {first:Date} AND day <= {last:Date} AND run IN {runs:Array(UInt64)}
)"""


def lists_of(rows: str, *, by_day: bool = False) -> str:
    """The lists of these rows of visits (a table, or a selection in brackets): list, name, visitors, number; `by_day`:
    each day's for itself."""
    return _LISTS.replace("{{rows}}", rows).replace("{{by_day}}", "day," if by_day else "")


LISTS_OF_TOLD_DAYS = (
    Path(__file__)
    .with_name("lists_of_told_days.sql")
    .read_text()
    .replace("{{lists_of_open_days}}", lists_of(_OPEN))
)
"""The same of all visits, added up from what was told of finished days, and of the open one."""
