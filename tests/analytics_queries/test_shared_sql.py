"""Parts that several report queries share have the same text in each of them."""

import re
from pathlib import Path

from analytics_queries import visit_analysis, visits
from storage_backends.sql_files import read_statements

_FOLDER = Path(visits.__file__).parent
_CTE = re.compile(r"^    (\w+) AS(?: MATERIALIZED)?\n    \((.*?)\n    \)", re.MULTILINE | re.DOTALL)
_FILES = ("period_figures", "hours_of_day")
_REPORT = read_statements(_FOLDER / "read_visits.py")


def _lists(sql: str, rows: str) -> list[str]:
    """Return the part of the query that counts lists of these rows, without the days."""
    begin = sql.index("transform(")
    text = sql[begin : sql.index("GROUP BY", sql.index("AS action\n", begin))]
    return re.sub(rf"\bday,\s*|FROM {rows}\b", "", text).split()


def test_lists_of_a_day_are_counted_like_those_of_a_report() -> None:
    day_lists = _lists(read_statements(_FOLDER / "refresh_rollups.py")["insert_lists"], "visits")
    assert day_lists == _lists(_REPORT["lists"], "visits")


def test_every_query_filters_visits_in_the_same_way() -> None:
    queries = [_REPORT["filtered_visits"], *(_FOLDER.joinpath(f"{file}.sql").read_text() for file in _FILES)]
    rows = [dict(_CTE.findall(sql))["visits"].partition("FROM")[2] for sql in queries]
    assert len(set(rows)) == 1


def test_every_analysis_chooses_visits_in_the_same_way() -> None:
    folder = Path(visit_analysis.__file__).parent
    texts = [path.read_text() for path in sorted(folder.glob("*.sql"))]
    conditions = [found["visits"] for sql in texts for found in _ctes_of_statements(sql) if "visits" in found]
    assert len(conditions) == 8 and len(set(conditions)) == 1


def _ctes_of_statements(sql: str) -> list[dict[str, str]]:
    return [dict(_CTE.findall(part)) for part in sql.split("-- name: ")]
