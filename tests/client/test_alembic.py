"""Alembic's autogenerate in a database where an application and SkipMQ live together."""

import pytest
import sqlalchemy
from alembic.autogenerate import produce_migrations
from alembic.migration import MigrationContext
from alembic.operations.ops import DropTableOp
from sqlalchemy.exc import SAWarning
from sqlalchemy.pool import NullPool

from skipmq.alembic import include_name
from support.postgres import Connection

MODELS = sqlalchemy.MetaData()


def dropped(database: str, **options: object) -> set[str | None]:
    """Return the schemas of the tables that autogenerate would drop."""
    url = database.replace("postgresql://", "postgresql+psycopg://", 1)
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"target_metadata": MODELS, "include_schemas": True, **options}
        )
        operations = produce_migrations(context, MODELS).upgrade_ops
        assert operations is not None
        return {op.schema for op in operations.ops if isinstance(op, DropTableOp)}


@pytest.fixture
def forgotten(owner: Connection) -> None:
    """Make tables that no model has, one in a schema of the application's own."""
    owner.execute("create table public.forgotten (id int primary key)")
    owner.execute("create schema shop create table forgotten (id int primary key)")


@pytest.mark.usefixtures("forgotten")
def test_autogenerate_leaves_the_schema_alone(database: str) -> None:
    with pytest.warns(SAWarning, match="Did not recognize type"):
        assert "skipmq" in dropped(database)

    assert dropped(database, include_name=include_name) == {None, "shop"}


@pytest.mark.usefixtures("forgotten")
def test_function_is_combined_with_one_of_the_application(database: str) -> None:
    def mine(name: str | None, type_: str, parents: object) -> bool:
        return include_name(name, type_, parents) and (type_ != "schema" or name is None)

    assert dropped(database, include_name=mine) == {None}
