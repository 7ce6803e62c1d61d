"""Write declared queues as the TOML in which a node, a test server and an import read them.

Source: TOML 1.0.0.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from skipmq.config.declarations import DeclaredQueue
from skipmq.protocol.queue_attributes import ATTRIBUTES, DOCUMENTS

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_FIFO = "FifoQueue"


def write(queues: Iterable[DeclaredQueue]) -> str:
    """Return queues as [queues.NAME] tables."""
    return "\n".join("\n".join(_table(queue)) + "\n" for queue in queues)


def _table(queue: DeclaredQueue) -> Iterator[str]:
    key = _key(queue.name)
    if queue.account and queue.region:
        key = _key(f"arn:aws:sqs:{queue.region}:{queue.account}:{queue.name}")
    yield f"[queues.{key}]"
    for name, text in queue.attributes.items():
        yield f"{_key(name)} = {_value(_decoded(name, text))}"
    for name, schedule in queue.schedules.items():
        yield f"[queues.{key}.schedules.{_key(name)}]"
        for member, value in msgspec.structs.asdict(schedule).items():
            if value is not None:
                yield f"{member} = {_value(value)}"
    for name, subscription in queue.topics.items():
        yield f"[queues.{key}.topics.{_key(name)}]"
        yield from (f"{_key(each)} = {_value(text)}" for each, text in subscription.items())
    if queue.tags:
        yield f"[queues.{key}.tags]"
        for tag, text in queue.tags.items():
            yield f"{_key(tag)} = {_value(text)}"


def _decoded(name: str, text: str) -> Any:
    """Return the value of an attribute as a reader expects it: a number, a document's table."""
    attribute = ATTRIBUTES.get(name)
    if name in DOCUMENTS:
        try:
            document = json.loads(text)
        except ValueError:
            return text
        # TOML has no null, nor floats as JSON writes them.
        return document if _is_writable(document) else text
    if name == _FIFO or (attribute and attribute.type is bool):
        return text.lower() == "true" if text.lower() in {"true", "false"} else text
    is_number = attribute and attribute.type is int and attribute.stored(text) == text
    return int(text) if is_number else text


def _is_writable(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_writable, value.values()))
    if isinstance(value, list):
        return all(map(_is_writable, value))
    return isinstance(value, str | int)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        members = [f"{_key(key)} = {_value(each)}" for key, each in value.items()]
        return f"{{ {', '.join(members)} }}" if members else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    # What JSON writes of a text, a number or a truth value is TOML. A terminal that shows it is not
    # to be controlled by it.
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if character <= "\uffff" else f"\\U{ord(character):08x}"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)
