"""Read the queues that a file declares: TOML, or ElasticMQ's configuration; and write TOML.

Source: TOML 1.0.0.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from skipmq.config import declarations
from skipmq.config.declarations import DeclaredQueue, Difference, Found, UnreadableError
from skipmq.protocol import names
from skipmq.protocol.queue_attributes import ATTRIBUTES, DOCUMENTS

# A tuple of keys, as tomllib quotes duplicates.
_KEYS = re.compile(r"\((['\"]).*\1,?\)")
_TAGS = "tags"
_TABLES = {_TAGS, declarations.SCHEDULES, declarations.TOPICS}
# What has no declarations to read, by its ending.
_OTHERS = {".yml": "YAML", ".yaml": "YAML", ".sh": "a script"}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_FIFO = "FifoQueue"


def read(file: Path, problems: list[str]) -> Found:
    """Return what a file declares, by its ending: .toml, or else HOCON; add to the problems."""
    if file.suffix == ".toml":
        content = read_toml(file, problems)
        if others := sorted(set(content) - {"queues"}):
            problems.append(
                f"{file}: {others[0]}: a file of queues has [queues.NAME] alone; settings are"
                " variables, or in the file that SKIPMQ_CONFIG names"
            )
        return Found(declared(file, content.get("queues", {}), problems))
    if other := _OTHERS.get(file.suffix):
        problems.append(
            f"{file}: {other} declares no queues: name the elasticmq.conf that its service mounts,"
            " or read those of LocalStack while it runs, by `skipmq import --from-sqs"
            " --endpoint-url http://localhost:4566 --region us-east-1`"
        )
        return Found(())
    # Imported late: few nodes read HOCON.
    from skipmq.config.imports import elasticmq  # noqa: PLC0415

    try:
        return elasticmq.read(file)
    except UnreadableError as error:
        problems.append(str(error))
        return Found(())


def read_toml(file: Path, problems: list[str]) -> dict[str, Any]:
    """Return the content of a TOML file; add to the problems, without quoting its keys."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append(f"{file}: there is no such file: check the path")
    except OSError as error:
        problems.append(f"{file}: cannot be read as TOML: {error.strerror}")
    except ValueError as error:
        problems.append(f"{file}: cannot be read as TOML: {_KEYS.sub('a key', str(error))}")
    return {}


def declared(file: Path, value: Any, problems: list[str]) -> tuple[DeclaredQueue, ...]:
    """Return the queues of [queues.NAME] tables; add to the problems."""
    if not isinstance(value, dict) or not all(isinstance(v, dict) for v in value.values()):
        problems.append(f"{file}: queues: write a table for each queue, such as [queues.orders]")
        return ()
    found = []
    for key, attributes in value.items():
        try:
            name, account, region = names.parse(key)
        except names.QueueNameError as error:
            problems.append(f"{file}: queues: {error}")
            continue
        tags = attributes.get(_TAGS, {})
        if not isinstance(tags, Mapping):
            problems.append(f"{file}: queues: {key}: write tags as a table: [queues.{key}.tags]")
            continue
        try:
            schedules, topics = declarations.schedules_and_topics(attributes)
        except ValueError as error:
            problems.append(f"{file}: queues: {key}: {error}")
            continue
        others = {k: v for k, v in attributes.items() if k not in _TABLES}
        texts = {k: declarations.text(v) for k, v in others.items()}
        tagged = {k: declarations.text(v) for k, v in tags.items()}
        found.append(DeclaredQueue(name, texts, account, region, tagged, schedules, topics))
    return tuple(found)


def applicable(found: Found, changed: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return the differences but those that settings, by name and source, have answered."""
    return tuple(
        each for each in found.differences if changed.get(each.setting, "default") == "default"
    )


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
