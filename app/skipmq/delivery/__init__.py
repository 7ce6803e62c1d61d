"""What a broker is: messages, group commit, waiters."""

from skipmq.delivery.in_flight import InFlight
from skipmq.delivery.messages import Messages

__all__ = ["InFlight", "Messages"]
