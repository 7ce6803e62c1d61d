"""Long polling: the waiting receivers of each queue, and the wake-ups between processes."""

from skipmq.broker.messages.waiters.notifier import Listener, Notifier
from skipmq.broker.messages.waiters.registry import Waiter, Waiters

__all__ = ["Listener", "Notifier", "Waiter", "Waiters"]
