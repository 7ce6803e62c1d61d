"""Long polling: the receivers that wait on each queue, and what wakes them."""

from skipmq.delivery.waiters.listener import Listener
from skipmq.delivery.waiters.notifier import Notifier
from skipmq.delivery.waiters.polling import poll_until
from skipmq.delivery.waiters.registry import Waiter, Waiters

__all__ = ["Listener", "Notifier", "Waiter", "Waiters", "poll_until"]
