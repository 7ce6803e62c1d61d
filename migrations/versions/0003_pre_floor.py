"""Claims that begin where the last one ended."""

from pathlib import Path

from alembic import op

revision = "0003_pre_floor"
down_revision = "0002_pre_fifo"


def upgrade() -> None:
    """Replace functions; nodes of the release before go on working."""
    frozen = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().connection.driver_connection.execute(frozen)


def downgrade() -> None:
    """Refuse: there is nothing to take back, nodes of the release before work with this schema."""
    message = "nodes of the release before work with schema 0003: leave it as it is"
    raise NotImplementedError(message)
