"""The condition of a database, for `skipmq doctor`."""

import psycopg

from skipmq.database.schema import SchemaError

_DAMAGE = "select error || ': ' || remedy from skipmq.damaged_pages()"


def check_pages(url: str) -> str:
    """Return that no page is known to be damaged; raise SchemaError with the remedies."""
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        found = [damage for (damage,) in connection.execute(_DAMAGE)]
    if found:
        raise SchemaError("; ".join(found))
    return "no node has met a damaged page"
