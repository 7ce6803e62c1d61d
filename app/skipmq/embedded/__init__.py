"""The embedded PostgreSQL, which a node uses when no database is configured."""

from skipmq.embedded.binaries import EmbeddedError, client_program
from skipmq.embedded.ephemeral import Contents, start_ephemeral
from skipmq.embedded.server import Server, default_data_dir, start
from skipmq.embedded.status import Status, status

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
