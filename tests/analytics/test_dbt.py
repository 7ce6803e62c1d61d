"""The sources for dbt are the views as they are."""

from pathlib import Path

import yaml

import skipmq
from support.postgres import Connection

SOURCES = Path(skipmq.__file__).parent / "analytics" / "dbt" / "sources.yml"
COLUMNS = """
select table_name, array_agg(column_name::text order by ordinal_position)
from information_schema.columns where table_schema = 'skipmq_views' group by 1
"""


def test_sources_have_every_column_of_every_view(owner: Connection) -> None:
    (source,) = yaml.safe_load(SOURCES.read_text())["sources"]
    described = {
        table["name"]: [column["name"] for column in table["columns"]] for table in source["tables"]
    }

    assert source["schema"] == "skipmq_views"
    assert described == dict(owner.execute(COLUMNS).fetchall())
