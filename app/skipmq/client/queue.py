"""A queue as a program sees it: its name, and the type of its bodies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar, overload

from skipmq.client import bodies, statements, tracing, transactions
from skipmq.client.errors import ClientError, check_count, check_text, explained
from skipmq.client.message import Sending, Value, attributes_json, typed_attributes
from skipmq.client.sending import is_url, send
from skipmq.protocol import limits, names

T = TypeVar("T")
# Messages of one statement.
_CHUNK = 500

Attributes = Mapping[str, Value]


def _check_delay(delay: Any) -> None:
    check_count("delay", delay, 0)
    if delay > limits.MAXIMUM_DELAY:
        raise ClientError(
            f"delay={delay} is too much: DelaySeconds must be >= 0 and <= {limits.MAXIMUM_DELAY}"
        )


def _check_time(at: Any, delay: int | None) -> None:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise ClientError(
            f"deliver_at={at!r} is no time: use a datetime with a time zone, as in"
            " datetime.now(UTC) + timedelta(days=3)"
        )
    if delay is not None:
        raise ClientError("delay and deliver_at are two times of delivery: leave one out")


class Queue(Generic[T]):
    """A queue of the broker, whose bodies are of a type: it opens nothing and can be global.

    The type is a dataclass, a msgspec.Struct, a pydantic model or dict, which are JSON in the
    message; str, which is the body; or bytes, in base64. Without one each of these is sent.
    """

    @overload
    def __init__(
        self: "Queue[Any]",
        name: str,
        type: None = None,
        *,
        account: str | None = ...,
        region: str | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self, name: str, type: type[T], *, account: str | None = ..., region: str | None = ...
    ) -> None: ...
    def __init__(
        self,
        name: str,
        type: type[T] | None = None,  # noqa: A002 - what it is.
        *,
        account: str | None = None,
        region: str | None = None,
    ) -> None:
        """Name a queue; raise ClientError for a type that bodies cannot have.

        The name may be a URL or an ARN, which names its account and region. Without `account` and
        `region` it is in those that a connection has set, `skipmq.account` and `skipmq.region`, or
        in 000000000000 and us-east-1.
        """
        place = {"name": name, "account": account, "region": region}
        for what, text in place.items():
            if text is not None or what == "name":
                check_text(f"the {what} of a queue", text)
        try:
            named = names.parse(name)
        except names.QueueNameError as error:
            raise ClientError(str(error)) from None
        self.name = named.name
        self.account, self.region = account or named.account, region or named.region
        self.type = type
        self.codec = bodies.codec(type)

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    @property
    def fifo(self) -> bool:
        """Whether it keeps the order of groups: its name ends in .fifo."""
        return self.name.endswith(".fifo")

    @property
    def arn(self) -> str:
        """Return its Amazon resource name, where no connection has set another place."""
        return self.arn_in(limits.DEFAULT_ACCOUNT, limits.DEFAULT_REGION)

    def arn_in(self, account: str, region: str) -> str:
        """Return its Amazon resource name for connections with this account and region."""
        return f"arn:aws:sqs:{self.region or region}:{self.account or account}:{self.name}"

    def send(  # noqa: PLR0913 - what a message has.
        self,
        body: T,
        *,
        using: Any,
        delay: int | None = None,
        deliver_at: datetime | None = None,
        attributes: Attributes | None = None,
        group: str | None = None,
        deduplication_id: str | None = None,
        priority: int | None = None,
    ) -> str:
        """Send a message in the caller's transaction; return its id.

        It is there when that transaction has committed. `using` is a connection or cursor of
        psycopg, a connection or session of SQLAlchemy, or the alias of a database of Django; or the
        URL of a broker, `https://…`, which sends at once. `delay` is in seconds, `deliver_at` a
        time: both up to the queue's MaximumDelaySeconds. A FIFO queue needs a `group`; a standard
        queue takes a `deduplication_id` if it has DeduplicationSeconds, and a `priority` from 0 to
        9 if it has a PriorityMode. Raises ClientError, and over HTTP UnavailableError.
        """
        (sending,) = self._sendings(
            [body], delay, deliver_at, attributes, group, [deduplication_id], priority
        )
        (message_id,) = self._run(using, sending)
        return message_id

    def send_many(  # noqa: PLR0913 - as above.
        self,
        bodies: Iterable[T],
        *,
        using: Any,
        delay: int | None = None,
        deliver_at: datetime | None = None,
        attributes: Attributes | None = None,
        group: str | None = None,
        deduplication_ids: Sequence[str] | None = None,
        priority: int | None = None,
    ) -> list[str]:
        """Send messages in the caller's transaction, in their order; return their ids.

        All have the same delay, attributes, group and priority. Raises ClientError.
        """
        sendings = self._sendings(
            bodies, delay, deliver_at, attributes, group, deduplication_ids, priority
        )
        return [each for sending in sendings for each in self._run(using, sending)]

    async def asend(  # noqa: PLR0913 - as above.
        self,
        body: T,
        *,
        using: Any,
        delay: int | None = None,
        deliver_at: datetime | None = None,
        attributes: Attributes | None = None,
        group: str | None = None,
        deduplication_id: str | None = None,
        priority: int | None = None,
    ) -> str:
        """Send a message in the caller's transaction, as `send` does.

        `using` is an asynchronous connection of psycopg or asyncpg, a cursor of psycopg, an
        asynchronous connection or session of SQLAlchemy, or the URL of a broker.
        """
        (sending,) = self._sendings(
            [body], delay, deliver_at, attributes, group, [deduplication_id], priority
        )
        (message_id,) = await self._arun(using, sending)
        return message_id

    async def asend_many(  # noqa: PLR0913 - as above.
        self,
        bodies: Iterable[T],
        *,
        using: Any,
        delay: int | None = None,
        deliver_at: datetime | None = None,
        attributes: Attributes | None = None,
        group: str | None = None,
        deduplication_ids: Sequence[str] | None = None,
        priority: int | None = None,
    ) -> list[str]:
        """Send messages in the caller's transaction, as `send_many` does."""
        sendings = self._sendings(
            bodies, delay, deliver_at, attributes, group, deduplication_ids, priority
        )
        return [each for sending in sendings for each in await self._arun(using, sending)]

    def _check_kind(self, delay: int | None, group: str | None) -> None:
        if self.fifo and group is None:
            raise ClientError(
                f"{self.name!r} is a FIFO queue: name the group within which messages are"
                " ordered, as in group='customer-7'"
            )
        if self.fifo and delay is not None:
            raise ClientError(
                f"{self.name!r} is a FIFO queue, which has one delay for all messages: leave delay"
                " out, and set the queue's DelaySeconds"
            )

    def _sendings(  # noqa: PLR0913, PLR0917 - what a message has.
        self,
        values: Iterable[T],
        delay: int | None,
        deliver_at: datetime | None,
        attributes: Attributes | None,
        group: str | None,
        deduplication_ids: Sequence[str | None] | None,
        priority: int | None,
    ) -> Iterator[Sending]:
        """Yield the messages in chunks; raise ClientError for what the queue cannot have."""
        typed = typed_attributes({} if attributes is None else attributes)
        typed |= priority_attribute(self, priority)
        if delay is not None:
            _check_delay(delay)
        if deliver_at is not None:
            _check_time(deliver_at, delay)
        if group is not None:
            check_text("group", group)
        for given in deduplication_ids or ():
            if given is not None:
                check_text("a deduplication id", given)
        self._check_kind(delay if deliver_at is None else 0, group)
        ids = iter(deduplication_ids or ())
        encoded = map(self.encoded, values)
        while chunk := list(islice(encoded, _CHUNK)):
            own = [next(ids, None) for _ in chunk] if self.fifo or deduplication_ids else None
            if "" in (own or ()):
                raise ClientError(
                    f"a deduplication id of {self.name!r} is empty: use 1 to 128 characters, or"
                    " None, with which the queue may deduplicate by content"
                )
            yield Sending(chunk, typed, delay, group, own, deliver_at)

    def _statement(self, sending: Sending) -> tuple[str, list[Any]]:
        chunk, typed, delay, group, own, at = sending
        known = attributes_json(typed)
        where = (self.account, self.region)
        ids = [each or "" for each in own or ()]
        if self.fifo:
            return statements.SEND_FIFO, [self.name, group, known, *where, chunk, ids]
        until = None if at is None else at.isoformat()
        if any(ids):
            parameters = [self.name, known, delay, *where, group, until, chunk, ids]
            return statements.SEND_UNIQUE, parameters
        return statements.SEND, [self.name, known, delay, *where, group, until, chunk]

    def encoded(self, value: T) -> str:
        """Return the text of a body; raise ClientError for what it cannot be."""
        bodies.check(value, self.type, self.name)
        try:
            body = self.codec.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            reason = str(error).partition("\n")[0]
            raise ClientError(
                f"a {bodies.shown(type(value))} cannot be a body of the queue {self.name!r}"
                f" ({reason}): send {bodies.TYPES}, whose members have a JSON"
            ) from error
        check_text("the body", body)
        bodies.check_size(body)
        return body

    def _run(self, using: Any, sending: Sending) -> list[str]:
        with tracing.sent(self.name, sending) as traced:
            if is_url(using):
                return send(using, self.name, self.account, self.region, traced)
            statement, parameters = self._statement(traced)
            with self.explaining():
                return [str(row[0]) for row in transactions.run(using, statement, parameters)]

    async def _arun(self, using: Any, sending: Sending) -> list[str]:
        with tracing.sent(self.name, sending) as traced:
            if is_url(using):
                import asyncio  # noqa: PLC0415 - the caller has imported it.

                place = (self.name, self.account, self.region)
                return await asyncio.to_thread(send, using, *place, traced)
            statement, parameters = self._statement(traced)
            with self.explaining():
                rows = await transactions.arun(using, statement, parameters)
                return [str(row[0]) for row in rows]

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise ClientError for what the caller can correct of the errors within."""
        try:
            yield
        except Exception as error:
            found = explained(error, self.name, self.account, self.region)
            if found is None:
                raise
            raise found from error


def priority_attribute(queue: Queue[Any], priority: int | None) -> dict[str, dict[str, str]]:
    """Return the attribute that is a message's priority, if any; raise ClientError."""
    if priority is None:
        return {}
    check_count("priority", priority, 0)
    if queue.fifo or str(priority) not in limits.PRIORITIES:
        raise ClientError(
            f"priority={priority} of {queue.name!r}: messages of standard queues have one from 0"
            " to 9"
        )
    return typed_attributes({limits.PRIORITY: priority})


class Scheduled(NamedTuple):
    """A schedule that an app declares: its name, its queue, when it sends what, and to a group.

    `attributes` are those of the message, as SQS's wire has them.
    """

    name: str
    queue: Queue[Any]
    expression: str
    body: str
    zone: str
    group: str | None
    attributes: dict[str, dict[str, str]]
