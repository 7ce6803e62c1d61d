"""FIFO queues, fair queues, and numbers of messages that need no counting."""

from pathlib import Path

from alembic import op

revision = "0002_pre_fifo"
down_revision = "0001_pre_first"


def upgrade() -> None:
    """Add to what is there; nodes of the release before go on working."""
    frozen = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().connection.driver_connection.execute(frozen)


def downgrade() -> None:
    """Refuse: FIFO queues have no place in the schema before."""
    message = "the schema before 0002 has no place for FIFO queues; restore a backup"
    raise NotImplementedError(message)
