"""The schema of the first release."""

from pathlib import Path

from alembic import op

revision = "0001_pre_first"
down_revision = None


def upgrade() -> None:
    """Create everything."""
    frozen = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().connection.driver_connection.execute(frozen)


def downgrade() -> None:
    """Drop everything, messages included."""
    op.execute("drop schema skipmq, skipmq_views cascade")
