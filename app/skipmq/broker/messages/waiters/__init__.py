"""Long polling: the waiting receivers of each queue, and the wake-ups between processes."""

from skipmq.broker.messages.waiters.listener import Listener
from skipmq.broker.messages.waiters.notifier import Notifier
from skipmq.broker.messages.waiters.polling import poll_until
from skipmq.broker.messages.waiters.registry import Waiter, Waiters

__all__ = ["Listener", "Notifier", "Waiter", "Waiters", "poll_until"]
