"""For Alembic's autogenerate in the application's own migrations: leave SkipMQ's schema alone."""

from typing import Any


def include_name(name: str | None, type_: str, parent_names: Any) -> bool:  # noqa: ARG001 - Alembic's.
    """Return False for the schemas of SkipMQ, for `context.configure(include_name=…)`.

    Needed with include_schemas=True, which would otherwise drop their tables.
    """
    return type_ != "schema" or name not in {"skipmq", "skipmq_views"}
