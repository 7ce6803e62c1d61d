"""The driver's errors that others handle, under names of their own."""

from psycopg import Error as DatabaseError
from psycopg.errors import InsufficientPrivilege

__all__ = ["DatabaseError", "InsufficientPrivilege"]
