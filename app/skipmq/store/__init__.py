"""Everything in the database but messages; each class calls the SQL functions of one subject."""

from skipmq.store.activity import Activity
from skipmq.store.audit_log import Audit
from skipmq.store.consumers import Consumers
from skipmq.store.dead_letters import DeadLetters
from skipmq.store.inspection import Inspection
from skipmq.store.moves import Moves
from skipmq.store.overview import Overviews
from skipmq.store.queues import Queues
from skipmq.store.receipt_keys import ReceiptKeys
from skipmq.store.statistics import Statistics
from skipmq.store.timelines import Timelines
from skipmq.store.troubles import Troubles
from skipmq.store.upkeep import Upkeep
from skipmq.store.workers import Workers

__all__ = [
    "Activity",
    "Audit",
    "Consumers",
    "DeadLetters",
    "Inspection",
    "Moves",
    "Overviews",
    "Queues",
    "ReceiptKeys",
    "Statistics",
    "Timelines",
    "Troubles",
    "Upkeep",
    "Workers",
]
