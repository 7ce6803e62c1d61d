"""The Python client: send in your transaction by SQL, without a node."""

from skipmq.client.errors import ClientError
from skipmq.client.queue import Queue

__all__ = ["ClientError", "Queue"]
