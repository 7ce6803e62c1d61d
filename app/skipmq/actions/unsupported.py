"""The actions that this release does not have."""

from typing import NoReturn

from skipmq import errors
from skipmq.node import Node
from skipmq.protocol import Call


def refuse(node: Node, call: Call) -> NoReturn:
    """Say that this release does not have the action: raise errors.UnsupportedOperation."""
    del node
    raise errors.UnsupportedOperation(f"SkipMQ does not support the action {call.action} yet.")
