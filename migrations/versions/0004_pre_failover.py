"""Sends that can be tried again, and queues that ask for more servers."""

from pathlib import Path

from alembic import op

revision = "0004_pre_failover"
down_revision = "0003_pre_floor"


def upgrade() -> None:
    """Replace functions; nodes of the release before go on working."""
    frozen = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().connection.driver_connection.execute(frozen)


def downgrade() -> None:
    """Refuse: there is nothing to take back, nodes of the release before work with this schema."""
    message = "nodes of the release before work with schema 0004: leave it as it is"
    raise NotImplementedError(message)
