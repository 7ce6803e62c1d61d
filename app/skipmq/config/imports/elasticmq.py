"""Read the configuration of ElasticMQ as queues and settings.

Source: ElasticMQ's README and the reference.conf of its server.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from skipmq.config import declarations
from skipmq.config.declarations import DeclaredQueue, Difference, Found, UnreadableError
from skipmq.config.imports import hocon
from skipmq.config.imports.hocon import Document
from skipmq.protocol import limits
from skipmq.protocol.names import FIFO, is_valid
from skipmq.protocol.queue_attributes import ATTRIBUTES

# ElasticMQ keeps a message until it is deleted; the nearest to that which SQS allows.
_KEPT = str(limits.MAXIMUM_RETENTION)
# The region in ARNs where the file names none.
_REGION = "elasticmq"
_DURATIONS = {
    "defaultVisibilityTimeout": "VisibilityTimeout",
    "delay": "DelaySeconds",
    "receiveMessageWait": "ReceiveMessageWaitTimeSeconds",
}
_OTHERS = ("deadLettersQueue", "fifo", "contentBasedDeduplication", "copyTo", "moveTo", "tags")
# These are SkipMQ's own; ElasticMQ takes no notice of them.
_KEYS = (*_DURATIONS, *_OTHERS, declarations.SCHEDULES, declarations.TOPICS)
# Hosts in node-address for which URLs are made of the request's Host, which is right for each.
_OWN_HOSTS = {"localhost", "127.0.0.1", "0.0.0.0", "*", ""}  # noqa: S104 - compared, not bound.
_ADDRESS = {"protocol": "http", "host": "localhost", "port": 9324, "context-path": ""}
_SECTIONS = {
    "node-address": tuple(_ADDRESS),
    "rest-sqs": ("enabled", "bind-port", "bind-hostname", "sqs-limits", "auto-create-queues"),
    "rest-stats": ("enabled", "bind-port", "bind-hostname"),
    "queues-storage": ("enabled", "path"),
    "persisted-queues-storage": ("enabled", "path"),
    "messages-storage": (
        *("enabled", "driver-class", "uri", "username", "password", "prune-data-on-init"),
    ),
    "aws": ("region", "accountId"),
    "storage": ("type",),
    "elasticmq": ("debug",),
}
# Sections of the libraries that ElasticMQ runs on.
_OF_JVM = {"akka", "pekko", "spray", "java", "logback", "kamon"}
_CREATE = "create queues before they are used"
_STORED = "messages and queues are in PostgreSQL, and outlive restarts; nothing is to be set"
_ENABLED: dict[str, str] = {
    "messages-storage": f"{_STORED}. Messages in its file are not read: let consumers drain them",
    "queues-storage": f"{_STORED}. `skipmq import` reads the file of its path, too",
    "persisted-queues-storage": f"{_STORED}. `skipmq import` reads the file of its path, too",
}


def read(file: Path) -> Found:
    """Return what a configuration declares; raise UnreadableError for what cannot be declared."""
    return _Reading(hocon.read(file)).found()


@dataclass(slots=True)
class _Reading:
    """A document that is read, and the differences so far."""

    document: Document
    differences: list[Difference] = field(default_factory=list)

    def found(self) -> Found:
        values = self.document.values
        self.differences += self.document.differences
        settings = self._settings(values)
        declared = self._whole(self._section(values, "queues"))
        self.document.values = {**values, "queues": declared}
        queues = self._queues(declared)
        return Found(queues, settings, tuple(self.differences))

    # What is not a queue.

    def _settings(self, values: Mapping[str, Any]) -> dict[str, str | int]:
        self._check_sections(values)
        sections = {name: self._section(values, name) for name in _SECTIONS}
        for name, section in sections.items():
            for key in section:
                if key not in _SECTIONS[name]:
                    self._unknown((name, key), _SECTIONS[name], f"a key of {name}")
            if name in _ENABLED and _is_on(section.get("enabled")):
                self._differ((name, "enabled"), _ENABLED[name])
        self._rest(sections)
        settings: dict[str, str | int] = {"region": str(sections["aws"].get("region", _REGION))}
        if "accountId" in sections["aws"]:
            settings["account"] = str(sections["aws"]["accountId"])
        if "bind-port" in sections["rest-sqs"]:
            settings["port"] = self._number(("rest-sqs", "bind-port"), 0, 65_535)
        url = self._public_url(sections["node-address"])
        return settings | ({"public_url": url} if url else {})

    def _check_sections(self, values: Mapping[str, Any]) -> None:
        known = {*_SECTIONS, "queues", "generate-node-address", "auto-create-queues"}
        substituted = self.document.substituted
        for key in values:
            if key in known | _OF_JVM | (substituted or set()):
                continue
            # A file that this one includes may substitute the key.
            if substituted is not None or get_close_matches(key, known, n=1):
                self._unknown((key,), known, "a setting of ElasticMQ")
        if "auto-create-queues" in values:
            self._differ(("auto-create-queues",), _CREATE)

    def _rest(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        sqs = sections["rest-sqs"]
        if not _is_on(sqs.get("enabled", True)):
            self._differ(
                ("rest-sqs", "enabled"), "a node always serves SQS; applications may use SQL alone"
            )
        if (text := str(sqs.get("sqs-limits", "strict"))) not in {"strict", "relaxed"}:
            raise self._error(("rest-sqs", "sqs-limits"), "write strict or relaxed")
        if text == "relaxed":
            self._differ(
                ("rest-sqs", "sqs-limits"),
                "the limits are always those of SQS: 10 entries in a batch, 1 MiB in a request",
            )
        if "auto-create-queues" in sqs:
            self._differ(("rest-sqs", "auto-create-queues"), _CREATE)
        if str(sqs.get("bind-hostname", "localhost")) not in {"localhost", "127.0.0.1"}:
            self._differ(
                ("rest-sqs", "bind-hostname"),
                "a node listens on loopback until SKIPMQ_HOST is set; off loopback it checks"
                " signatures, unless SKIPMQ_AUTH=off",
                setting="host",
            )
        if "rest-stats" in self.document.values and _is_on(sections["rest-stats"].get("enabled")):
            self._differ(("rest-stats",), "statistics are in the console, at /console/")

    def _public_url(self, given: Mapping[str, Any]) -> str:
        """Return the base of queue URLs, where it is not to be that of each request."""
        whole = {**_ADDRESS, **given}
        path = str(whole["context-path"]).strip("/")
        host = str(whole["host"])
        generated = _is_on(self.document.values.get("generate-node-address"))
        if generated or (host in _OWN_HOSTS and not (path and host not in {"*", ""})):
            return ""
        url = f"{whole['protocol']}://{host}:{whole['port']}"
        return f"{url}/{path}" if path else url

    # Queues.

    def _queues(self, declared: Mapping[str, Any]) -> tuple[DeclaredQueue, ...]:
        names = {key: self._name(key, self._section(declared, key, "queues")) for key in declared}
        if twice := {name for name in names.values() if [*names.values()].count(name) > 1}:
            key = next(key for key, name in names.items() if name in twice)
            raise self._error(("queues", key), f"two queues have the name {names[key]}: rename one")
        # Dead-letter queues may be named without the ending that FIFO queues are given.
        known = {name.removesuffix(FIFO): name for name in names.values()}
        known |= {name: name for name in names.values()} | names
        return tuple(
            self._queue(key, names[key], values or {}, known) for key, values in declared.items()
        )

    def _whole(self, declared: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the queues by their names: `orders.fifo` without quotes is a path of two keys."""
        found: dict[str, Any] = {}
        for key, values in declared.items():
            fifo = values.get("fifo") if isinstance(values, Mapping) else None
            if not isinstance(fifo, Mapping):
                found[key] = values
                continue
            if rest := {own: value for own, value in values.items() if own != "fifo"}:
                found[key] = rest
            if key + FIFO in declared:
                raise self._error(
                    ("queues", key + FIFO), f"two queues have the name {key}{FIFO}: write it once"
                )
            found[key + FIFO] = fifo
        return found

    def _name(self, key: str, values: Mapping[str, Any]) -> str:
        """Return the name of a queue; ElasticMQ adds .fifo to that of a FIFO queue."""
        fifo = "fifo" in values and self._boolean("queues", key, "fifo")
        if key.endswith(FIFO) and not fifo:
            raise self._error(
                ("queues", repr(key)),
                "only a FIFO queue has a name in .fifo: write fifo = true in it",
            )
        if not is_valid(key):
            raise self._error(
                ("queues", repr(key)),
                "a name has up to 80 letters, digits, - and _; write one with a dot in quotes",
            )
        name = key.removesuffix(FIFO) + FIFO if fifo else key
        if name != key:
            self._differ(("queues", key), f"the queue is {name}: names of FIFO queues end in .fifo")
        return name

    def _queue(
        self, key: str, name: str, values: Mapping[str, Any], known: Mapping[str, str]
    ) -> DeclaredQueue:
        fifo = name.endswith(FIFO)
        attributes = {"FifoQueue": "true"} if fifo else {}
        for own, attribute in _DURATIONS.items():
            if own in values:
                attributes[attribute] = self._seconds(key, own, values[own])
        attributes["MessageRetentionPeriod"] = _KEPT
        if "contentBasedDeduplication" in values:
            by_content = self._boolean("queues", key, "contentBasedDeduplication")
            if fifo:
                attributes["ContentBasedDeduplication"] = str(by_content).lower()
            elif by_content:
                self._differ(
                    ("queues", key, "contentBasedDeduplication"),
                    "a standard queue does not deduplicate; write fifo = true for a FIFO queue",
                )
        if "deadLettersQueue" in values:
            attributes["RedrivePolicy"] = self._redrive(key, name, values, known)
        for own, remedy in _copies(values).items():
            self._differ(("queues", key, own), remedy)
        for own in values:
            if own not in _KEYS:
                self._unknown(("queues", key, own), _KEYS, "a key of a queue")
        return self._with_tables(key, name, attributes, values)

    def _with_tables(
        self, key: str, name: str, attributes: dict[str, str], values: Mapping[str, Any]
    ) -> DeclaredQueue:
        tags = self._section(values, "tags", "queues", key)
        texts = {tag: self._tag(key, tag, value) for tag, value in tags.items()}
        try:
            schedules, topics = declarations.schedules_and_topics(values)
        except ValueError as error:
            raise self._error(("queues", key), str(error)) from error
        return DeclaredQueue(name, attributes, tags=texts, schedules=schedules, topics=topics)

    def _redrive(
        self, key: str, name: str, values: Mapping[str, Any], known: Mapping[str, str]
    ) -> str:
        path = ("queues", key, "deadLettersQueue")
        section = self._section(values, path[2], *path[:2])
        if not {"name", "maxReceiveCount"} <= set(section):
            raise self._error(path, "write name and maxReceiveCount")
        text = str(section["name"])
        if (target := known.get(text)) is None:
            close = get_close_matches(text, known, n=1)
            remedy = f"write {close[0]}?" if close else f"declare it: queues {{ {text} {{ }} }}"
            raise self._error(path, f"there is no dead-letter queue {text}: {remedy}")
        if target.endswith(FIFO) != name.endswith(FIFO):
            raise self._error(
                path,
                "the dead-letter queue of a FIFO queue is a FIFO queue, that of a standard queue a"
                f" standard one; {target} is not: write another",
            )
        count = self._number((*path, "maxReceiveCount"), 1, limits.MAX_RECEIVE_COUNT)
        return f'{{"deadLetterTargetArn":"{target}","maxReceiveCount":{count}}}'

    # Values.

    def _section(self, values: Mapping[str, Any], key: str, *path: str) -> Mapping[str, Any]:
        section = values.get(key)
        if section is None:
            return {}
        if not isinstance(section, Mapping):
            raise self._error((*path, key), "write { } with its keys")
        return section

    def _seconds(self, key: str, own: str, value: Any) -> str:
        """Return a duration in whole seconds, as ElasticMQ makes of it; a bare number is in ms."""
        path, attribute = ("queues", key, own), ATTRIBUTES[_DURATIONS[own]]
        seconds = self._converted(path, value, hocon.seconds, "10 seconds")
        text = attribute.stored(str(int(seconds)))
        if text is None or seconds < 0:
            most = attribute.allowed.maximum
            raise self._error(path, f"write 0 to {most} seconds")
        if seconds != int(seconds):
            unit = "" if isinstance(value, str) else " (a bare number is of milliseconds)"
            self._differ(path, f"{value} is {text} seconds, as in ElasticMQ{unit}")
        return text

    def _boolean(self, *path: str) -> bool:
        return bool(self._converted(path, self._value(path), hocon.boolean, "true or false"))

    def _number(self, path: tuple[str, ...], least: int, most: int) -> int:
        wanted = f"a number from {least} to {most}"
        number: int = self._converted(path, self._value(path), hocon.number, wanted)
        if not least <= number <= most:
            raise self._error(path, f"write {wanted}")
        return number

    def _tag(self, key: str, tag: str, value: Any) -> str:
        if isinstance(value, Mapping | list) or value is None:
            raise self._error(("queues", key, "tags", tag), "write a text")
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _value(self, path: tuple[str, ...]) -> Any:
        value: Any = self.document.values
        for part in path:
            value = value[part]
        return value

    def _converted(
        self, path: tuple[str, ...], value: Any, convert: Callable[[Any], Any], wanted: str
    ) -> Any:
        try:
            return convert(value)
        except ValueError as error:
            raise self._error(path, f"write {wanted}") from error

    def _differ(self, path: tuple[str, ...], remedy: str, setting: str = "") -> None:
        self.differences.append(Difference(self._where(path), remedy, setting))

    def _error(self, path: tuple[str, ...], remedy: str) -> UnreadableError:
        return UnreadableError(f"{self._where(path)}: {remedy}")

    def _where(self, path: tuple[str, ...]) -> str:
        return f"{self.document.file}: {'.'.join(path)}"

    def _unknown(self, path: tuple[str, ...], known: Any, what: str) -> None:
        close = get_close_matches(path[-1], known, n=1)
        remedy = f"; did you mean {close[0]}?" if close else ""
        self._differ(path, f"it is not {what}, and has no effect{remedy}")


def _is_on(value: Any) -> bool:
    return str(value).lower() in {"true", "yes", "on"}


def _copies(values: Mapping[str, Any]) -> dict[str, str]:
    """Return what to do instead of each key that copies or redirects messages."""
    remedies = {
        "copyTo": "messages are not copied as they come. Send to both queues in one transaction"
        " (SQL or the Python client), set HistoryMode=full to look them up later, or copy"
        " once: `skipmq queue copy`",
        "moveTo": "messages are not redirected as they come. Have producers send to {0} itself,"
        " or move once: `skipmq queue move`",
    }
    return {key: text.format(values[key]) for key, text in remedies.items() if values.get(key)}
