"""Long polling: the waiting receivers of each queue, and the wake-ups between processes."""

from skipmq.delivery.waiters.listener import Listener
from skipmq.delivery.waiters.notifier import Notifier
from skipmq.delivery.waiters.polling import poll_until
from skipmq.delivery.waiters.registry import Waiter, Waiters

__all__ = ["Listener", "Notifier", "Waiter", "Waiters", "poll_until"]
