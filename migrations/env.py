"""Run the migrations, one process at a time for a database, with a short lock timeout."""

from alembic import context

from skipmq.database import schema

connection = context.config.attributes["connection"]
notify = context.config.attributes.get("told", lambda _: None)


def announce(step, **_):  # noqa: ANN001, ANN003, ANN201 - alembic's own signature.
    """Report a finished migration."""
    notify(step.up_revision_id if step.is_upgrade else step.down_revision_ids[0])


with connection.begin():
    driver = connection.connection.driver_connection
    schema.lock(driver)
    driver.execute("create schema if not exists skipmq")
    context.configure(
        connection=connection,
        version_table="alembic_version",
        version_table_schema="skipmq",
        on_version_apply=announce,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()
    schema.grant(driver)
