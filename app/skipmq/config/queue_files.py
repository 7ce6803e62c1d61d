"""Read the queues that a file declares: TOML tables, or the configuration of ElasticMQ."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skipmq.config import declarations
from skipmq.config.declarations import DeclaredQueue
from skipmq.config.imports.found import Difference, Found, UnreadableError
from skipmq.protocol import names

# A tuple of keys, as tomllib quotes duplicates.
_KEYS = re.compile(r"\((['\"]).*\1,?\)")
_TAGS = "tags"
_TABLES = {_TAGS, declarations.SCHEDULES, declarations.TOPICS}
# What has no declarations to read, by its ending.
_OTHERS = {".yml": "YAML", ".yaml": "YAML", ".sh": "a script"}


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
