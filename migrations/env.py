"""Run the migrations under one lock and with a lock_timeout, as schema.lock sets it."""

from alembic import context

from skipmq.database import schema

connection = context.config.attributes["connection"]
on_migrated = context.config.attributes.get("on_migrated", lambda _: None)


def on_version_apply(step, **_):  # noqa: ANN001, ANN003, ANN201 - alembic's own signature.
    """Call on_migrated with the name of a finished migration."""
    on_migrated(step.up_revision_id if step.is_upgrade else step.down_revision_ids[0])


with connection.begin():
    driver = connection.connection.driver_connection
    schema.lock(driver)
    driver.execute("create schema if not exists skipmq")
    context.configure(
        connection=connection,
        version_table="alembic_version",
        version_table_schema="skipmq",
        on_version_apply=on_version_apply,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()
    schema.grant(driver)
