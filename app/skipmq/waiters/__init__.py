"""Long polling: who waits on which queue, and what wakes them."""

from skipmq.waiters.listener import Listener
from skipmq.waiters.notifier import Notifier
from skipmq.waiters.registry import Waiter, Waiters

__all__ = ["Listener", "Notifier", "Waiter", "Waiters"]
