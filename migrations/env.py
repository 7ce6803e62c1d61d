"""Runs the migrations: one at a time in the whole database, never waiting long for a table."""

from alembic import context
from sqlalchemy import text

# Any number that nothing else in the database uses as an advisory lock.
MIGRATION_LOCK = 0x536B69704D51

connection = context.config.attributes["connection"]
told = context.config.attributes.get("told", lambda _: None)


def announce(step, **_):  # noqa: ANN001, ANN003, ANN201 - alembic's own signature.
    """Pass the name of a finished migration on."""
    told(step.up_revision_id if step.is_upgrade else step.down_revision_ids[0])


with connection.begin():
    # Two nodes that start at once: the second waits here and then finds the work done.
    connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
    connection.execute(text("set local lock_timeout = '10s'"))
    connection.execute(text("create schema if not exists skipmq"))
    context.configure(
        connection=connection,
        version_table="alembic_version",
        version_table_schema="skipmq",
        on_version_apply=announce,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()
    # Nodes look at it when they start, whatever role they have.
    connection.execute(text("grant select on skipmq.alembic_version to public"))
