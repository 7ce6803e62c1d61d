"""Views for readers, days that an export has, an end to snapshots held for too long."""

from pathlib import Path

from alembic import op

revision = "0005_pre_analytics"
down_revision = "0004_pre_failover"


def upgrade() -> None:
    """Add a column, a table and views; nodes of the release before go on working."""
    frozen = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().connection.driver_connection.execute(frozen)


def downgrade() -> None:
    """Refuse: there is nothing to take back, nodes of the release before work with this schema."""
    message = "nodes of the release before work with schema 0005: leave it as it is"
    raise NotImplementedError(message)
