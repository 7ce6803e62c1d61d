"""The only door to PostgreSQL: a method calls one SQL function."""

from skipmq.store.engine import Database
from skipmq.store.group_commit import GroupCommit
from skipmq.store.in_flight import InFlight
from skipmq.store.inspection import Inspection
from skipmq.store.messages import Messages
from skipmq.store.moves import Moves
from skipmq.store.outage import Observer, Unobserved
from skipmq.store.queues import Queues
from skipmq.store.replication import Level, Replication
from skipmq.store.session import Session
from skipmq.store.upkeep import Upkeep

__all__ = [
    "Database",
    "GroupCommit",
    "InFlight",
    "Inspection",
    "Level",
    "Messages",
    "Moves",
    "Observer",
    "Queues",
    "Replication",
    "Session",
    "Unobserved",
    "Upkeep",
]
