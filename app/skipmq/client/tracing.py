"""Traces by OpenTelemetry, of a program that has imported it: another pays for no import.

Source: OpenTelemetry, "Semantic conventions for messaging spans", where attributes of
one system are named messaging.SYSTEM.*.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from skipmq import release
from skipmq.client.message import Message, Sending
from skipmq.client.outcomes import Discard, reason_of
from skipmq.protocol.message import traceparent

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

_MAX_ATTRIBUTES = 10


def is_on() -> bool:
    """Return whether the program has imported OpenTelemetry: without it there is no span."""
    return "opentelemetry.trace" in sys.modules


def carried() -> dict[str, str]:
    """Return the context of the current span as headers, `traceparent` and what goes with it."""
    found: dict[str, str] = {}
    if is_on():
        from opentelemetry import propagate  # noqa: PLC0415 - the caller has imported it.

        propagate.inject(found)
    return found


@contextmanager
def sent(queue: str, sending: Sending) -> Iterator[Sending]:
    """Send within a span; yield the messages with its context in their attributes.

    A context among the attributes is kept, and no message gets more than ten attributes.
    """
    if not is_on():
        yield sending
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - as above.

    attributes = _described("send", queue)
    if len(sending.bodies) > 1:
        attributes["messaging.batch.message_count"] = len(sending.bodies)
    with _tracer().start_as_current_span(
        f"send {queue}", kind=SpanKind.PRODUCER, attributes=attributes
    ):
        given = sending.attributes
        own = {k: {"DataType": "String", "StringValue": v} for k, v in carried().items() if v}
        if own.keys() & given.keys() or len(own) + len(given) > _MAX_ATTRIBUTES:
            yield sending
        else:
            yield sending._replace(attributes=given | own)


@contextmanager
def processed(queue: str, messages: Sequence[Message], *, is_batch: bool) -> Iterator[None]:
    """Handle messages within a span: a child of the message's sender; a batch links to its."""
    if not is_on():
        yield
        return
    from opentelemetry import context, trace  # noqa: PLC0415 - as above.

    attributes, links = _described("process", queue), []
    if is_batch:
        parent = _without_span()
        attributes["messaging.batch.message_count"] = len(messages)
        for message in messages:
            sender = trace.get_current_span(_sender(message)).get_span_context()
            links.append(trace.Link(sender, {"messaging.message.id": message.id}))
    else:
        (message,) = messages
        parent = _sender(message)
        attributes["messaging.message.id"] = message.id
        attributes["messaging.skipmq.receive_count"] = message.receive_count
    token = context.attach(parent)
    try:
        with _tracer().start_as_current_span(
            f"process {queue}",
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=[link for link in links if link.context.is_valid],
        ):
            yield
    finally:
        context.detach(token)


def note(outcome: str) -> None:
    """Set the outcome of messages in the current span."""
    if is_on():
        from opentelemetry import trace  # noqa: PLC0415 - as above.

        trace.get_current_span().set_attribute("messaging.skipmq.outcome", outcome)


def note_error(error: BaseException) -> None:
    """Set in the current span the error of a handler or a body."""
    if is_on() and not isinstance(error, Discard):
        from opentelemetry import trace  # noqa: PLC0415 - as above.

        span = trace.get_current_span()
        span.record_exception(error)
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(trace.StatusCode.ERROR, reason_of(error))


def _described(operation: str, queue: str) -> dict[str, Any]:
    return {
        "messaging.system": "skipmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
    }


def _sender(message: Message) -> "Context":
    """Return the context that a message came with, in its attributes or in its trace header."""
    from opentelemetry import propagate, trace  # noqa: PLC0415 - as above.
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - as above.
        TraceContextTextMapPropagator,
    )

    texts = {name: value for name, value in message.attributes.items() if isinstance(value, str)}
    found = propagate.extract(texts, _without_span())
    if trace.get_current_span(found).get_span_context().is_valid:
        return found
    header = message.trace_header and traceparent(message.trace_header)
    return TraceContextTextMapPropagator().extract({"traceparent": header or ""}, found)


def _without_span() -> "Context":
    """Return the context here, which may be within a span that is none of the message's."""
    from opentelemetry import trace  # noqa: PLC0415 - as above.

    return trace.set_span_in_context(trace.INVALID_SPAN)


@lru_cache
def _tracer() -> "Tracer":
    from opentelemetry import trace  # noqa: PLC0415 - as above.

    return trace.get_tracer("skipmq", release.VERSION)
