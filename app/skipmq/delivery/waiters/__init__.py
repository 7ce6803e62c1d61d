"""Long polling: who waits on which queue, and what wakes them."""

from skipmq.delivery.waiters.listener import Listener
from skipmq.delivery.waiters.notifier import Notifier
from skipmq.delivery.waiters.registry import Waiter, Waiters

__all__ = ["Listener", "Notifier", "Waiter", "Waiters"]
