"""What a broker is: queues, messages, group commit, waiters."""

from skipmq.delivery.activity import Activity
from skipmq.delivery.audit import Audit
from skipmq.delivery.dead_letters import DeadLetters
from skipmq.delivery.in_flight import InFlight
from skipmq.delivery.inspection import Inspection
from skipmq.delivery.messages import Messages
from skipmq.delivery.moves import Moves
from skipmq.delivery.overview import Overview
from skipmq.delivery.queues import Queues
from skipmq.delivery.receipt_keys import ReceiptKeys
from skipmq.delivery.statistics import Statistics
from skipmq.delivery.timelines import Timelines
from skipmq.delivery.upkeep import Upkeep

__all__ = [
    "Activity",
    "Audit",
    "DeadLetters",
    "InFlight",
    "Inspection",
    "Messages",
    "Moves",
    "Overview",
    "Queues",
    "ReceiptKeys",
    "Statistics",
    "Timelines",
    "Upkeep",
]
