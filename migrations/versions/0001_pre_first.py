"""The schema of the first release: sql/, until `make freeze` writes it down at 0.1.0."""

from pathlib import Path

from alembic import op

from skipmq.database import files

revision = "0001_pre_first"
down_revision = None


def upgrade() -> None:
    """Create the schema."""
    frozen = Path(__file__).with_suffix(".sql")
    sql = frozen.read_text(encoding="utf-8") if frozen.exists() else files.first_migration()
    op.get_bind().connection.driver_connection.execute(sql)


def downgrade() -> None:
    """Drop the schema, messages included."""
    op.execute("drop schema skipmq, skipmq_views cascade")
