"""Delivery of messages: send, receive, delete, group commit and long polling."""

from skipmq.delivery.fifo import FifoMessages
from skipmq.delivery.in_flight import InFlight
from skipmq.delivery.standard import StandardMessages

__all__ = ["FifoMessages", "InFlight", "StandardMessages"]
