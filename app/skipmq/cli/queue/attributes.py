"""What is wrong with attributes of a queue, in one sentence each, before a node is asked."""

from collections.abc import Mapping
from difflib import get_close_matches

import click

from skipmq.protocol.queue_attributes import ATTRIBUTES, DOCUMENTS, Attribute

_FIFO_QUEUE = "FifoQueue"
_CHECKED_BY_NODE = DOCUMENTS | {"KmsMasterKeyId"}


def checked(attributes: Mapping[str, str], *, is_fifo: bool) -> None:
    """Raise click.ClickException for an unknown attribute, or a value out of its range."""
    for name, value in attributes.items():
        if name == _FIFO_QUEUE:
            continue
        attribute = ATTRIBUTES.get(name)
        if attribute is None:
            raise click.ClickException(_unknown(name))
        if attribute.allowed.fifo and not is_fifo:
            raise click.ClickException(f"{name} is for FIFO queues, whose names end in .fifo")
        if name not in _CHECKED_BY_NODE and attribute.stored(value) is None:
            raise click.ClickException(f"{name} is {_range(attribute)}, not {value!r}")


def _unknown(name: str) -> str:
    by_lower = {each.lower(): each for each in (*ATTRIBUTES, _FIFO_QUEUE)}
    if close := get_close_matches(name.lower(), by_lower, n=1):
        return f"no attribute is named {name}: did you mean {by_lower[close[0]]}?"
    return f"no attribute is named {name}: {', '.join(sorted(by_lower.values()))}"


def _range(attribute: Attribute) -> str:
    allowed = attribute.allowed
    if attribute.type is int:
        return f"a whole number from {allowed.minimum} to {allowed.maximum}"
    choices = ("true", "false") if attribute.type is bool else allowed.choices
    return " or ".join((", ".join(choices[:-1]), choices[-1]))
