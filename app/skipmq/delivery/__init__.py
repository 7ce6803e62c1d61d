"""What a broker is: messages, group commit, waiters."""

from skipmq.delivery.fifo import FifoMessages
from skipmq.delivery.in_flight import InFlight
from skipmq.delivery.standard import StandardMessages

__all__ = ["FifoMessages", "InFlight", "StandardMessages"]
