"""Delivery of messages: send, receive, delete, group commit and long polling."""

from skipmq.delivery.budget import Budget
from skipmq.delivery.fifo import FifoMessages
from skipmq.delivery.in_flight import InFlight
from skipmq.delivery.standard import StandardMessages

__all__ = ["Budget", "FifoMessages", "InFlight", "StandardMessages"]
