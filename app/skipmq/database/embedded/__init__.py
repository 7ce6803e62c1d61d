"""The embedded PostgreSQL, which a node uses when no database is configured."""

from skipmq.database.embedded.binaries import EmbeddedError, client_program
from skipmq.database.embedded.data_folder import Status, status
from skipmq.database.embedded.ephemeral import Contents, start_ephemeral
from skipmq.database.embedded.server import Server, default_data_dir, start

__all__ = [
    "Contents",
    "EmbeddedError",
    "Server",
    "Status",
    "client_program",
    "default_data_dir",
    "start",
    "start_ephemeral",
    "status",
]
