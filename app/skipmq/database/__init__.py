"""Connections to PostgreSQL, prepared statements, and retries while the server is unavailable."""

from psycopg import Error as DatabaseError
from psycopg.errors import InsufficientPrivilege

from skipmq.database.availability import NoObserver, Observer
from skipmq.database.monitor import Monitor
from skipmq.database.partitions import Database
from skipmq.database.pool import Pool
from skipmq.database.replication import Level, Replication
from skipmq.database.statement import Rows, Search, Statement

__all__ = [
    "Database",
    "DatabaseError",
    "InsufficientPrivilege",
    "Level",
    "Monitor",
    "NoObserver",
    "Observer",
    "Pool",
    "Replication",
    "Rows",
    "Search",
    "Statement",
]
