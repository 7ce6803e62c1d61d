"""The private PostgreSQL of a node that was given no database."""

from skipmq.embedded.binaries import EmbeddedError
from skipmq.embedded.server import Server, default_data_dir, start, start_ephemeral

__all__ = ["EmbeddedError", "Server", "default_data_dir", "start", "start_ephemeral"]
