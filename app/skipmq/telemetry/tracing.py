"""Traces by OpenTelemetry; only this module imports it, and only if SKIPMQ_TRACING is on.

The SDK reads the OTEL_* variables: endpoint, sampling and the name of the service.
"""

import logging
import threading
from collections.abc import Awaitable, Iterable, Sequence
from time import monotonic
from typing import Any, TypeVar

import structlog
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from skipmq import release
from skipmq.protocol.call import RequestHeaders
from skipmq.protocol.message import traceparent
from skipmq.telemetry.logs import log

# Timeout for the last export at shutdown.
CLOSE_SECONDS = 2.0
# Minimum interval between warnings of the SDK other than the exporter's.
_WARNING_INTERVAL = 60.0
_DIGITS, _EPOCH_DIGITS = 32, 8

T = TypeVar("T")


class Tracing:
    """The spans of a process."""

    def __init__(self, instance: str) -> None:
        """Start exporting; `instance` is the service.instance.id.

        Raises ValueError for an invalid OTEL_* variable.
        """
        own = {
            "service.name": "skipmq",
            "service.version": release.VERSION,
            "service.instance.id": instance,
        }
        resource = Resource.create(own).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_Exporter()))
        self._tracer = self._provider.get_tracer("skipmq", release.VERSION)

    def request(self, name: str, headers: RequestHeaders) -> "RequestSpan":
        """Start the span of a request as a child of the span in its headers."""
        remote = _remote(headers)
        parent = context.Context() if remote is None else _context_with(NonRecordingSpan(remote))
        return RequestSpan(self._tracer.start_span(name, parent, SpanKind.SERVER))

    def transactions(self, operation: str) -> "Transactions":
        """Return the tracer of an operation's transactions."""
        return Transactions(self._tracer, operation)

    def wait(self) -> Span | None:
        """Start the span of a receiver's wait if the span of its request is recording."""
        return self._tracer.start_span("wait") if _current() is not None else None

    def trace_header(self, headers: RequestHeaders) -> str | None:
        """Convert the sender's W3C `traceparent` header to an AWSTraceHeader."""
        sender = _w3c_context(headers)
        if sender is None:
            return None
        root = f"{sender.trace_id:0{_DIGITS}x}"
        return (
            f"Root=1-{root[:_EPOCH_DIGITS]}-{root[_EPOCH_DIGITS:]}"
            f";Parent={sender.span_id:016x};Sampled={int(sender.trace_flags.sampled)}"
        )

    def link(self, trace_headers: Iterable[str | None]) -> None:
        """Link the current request's span to the senders of the messages that it receives."""
        span = _current()
        if span is None:
            return
        for header in trace_headers:
            if header and (sender := _xray_context(header)) is not None:
                span.add_link(sender)

    def close(self) -> None:
        """Export the last spans, within CLOSE_SECONDS."""
        # The SDK waits longer for a collector that accepts the connection and does not respond.
        shutdown = threading.Thread(target=self._provider.shutdown, daemon=True)
        shutdown.start()
        shutdown.join(CLOSE_SECONDS)
        if shutdown.is_alive():
            log.warning("dropped the last spans: the collector does not respond")


class RequestSpan:
    """The span of a request, current until it ends; the request's log lines have its trace_id."""

    __slots__ = ("_logged", "_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._token = context.attach(_context_with(span))
        trace_id = f"{span.get_span_context().trace_id:0{_DIGITS}x}"
        self._logged = structlog.contextvars.bind_contextvars(trace_id=trace_id)

    @property
    def is_recording(self) -> bool:
        """Return whether the span is sampled."""
        return self._span.is_recording()

    def end(self, name: str, attributes: dict[str, Any], *, is_fault: bool) -> None:
        """End the span; set `is_fault` for an error of the node, not of the client."""
        span = self._span
        if span.is_recording():
            span.update_name(name)
            span.set_attributes(attributes)
            if is_fault:
                span.set_status(Status(StatusCode.ERROR))
        span.end()
        structlog.contextvars.reset_contextvars(**self._logged)
        context.detach(self._token)


class Transactions:
    """The spans of an operation's transactions, each of which may serve many requests."""

    def __init__(self, tracer: trace.Tracer, operation: str) -> None:
        self._tracer = tracer
        self._operation = operation

    def origin(self) -> Span | None:
        """Return the span of the current request if it is recording."""
        return _current()

    async def traced(self, transaction: Awaitable[T], origins: Sequence[Span | None]) -> T:
        """Run a transaction for requests with these spans, and return its result.

        Its span is a child of the first one and is linked with the others in both directions.
        """
        recording = [span for span in origins if span is not None]
        if not recording:
            return await transaction
        first, *others = recording
        attributes: dict[str, Any] = {
            "db.system.name": "postgresql",
            "db.operation.name": self._operation,
        }
        if len(origins) > 1:
            attributes["db.operation.batch.size"] = len(origins)
        links = [trace.Link(each.get_span_context()) for each in others]
        span = self._tracer.start_span(
            self._operation, _context_with(first), SpanKind.CLIENT, attributes, links
        )
        for each in others:
            each.add_link(span.get_span_context())
        try:
            return await transaction
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            if state := getattr(error, "sqlstate", None):
                span.set_attribute("db.response.status_code", state)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            span.end()


class _Exporter(SpanExporter):
    """Exports spans; logs the first failure and the recovery, not each attempt."""

    def __init__(self) -> None:
        self._inner = OTLPSpanExporter()
        self._sdk_log = _SDKLog()
        self._dropped = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            if self._dropped:
                log.info("spans are exported again", dropped=self._dropped)
            self._dropped, self._sdk_log.first_error = 0, ""
        else:
            if not self._dropped:
                reason = self._sdk_log.first_error
                log.warning("spans cannot be exported and are dropped", reason=reason)
            self._dropped += len(spans)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]


class _SDKLog(logging.Handler):
    """Throttles the log of the SDK, which has a line for each attempt to reach a collector."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        # The first message of the exporter since the last successful export.
        self.first_error = ""
        self._muted_until = 0.0
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("opentelemetry.exporter"):
            self.first_error = self.first_error or record.getMessage()
        elif not self.first_error and monotonic() >= self._muted_until:
            self._muted_until = monotonic() + _WARNING_INTERVAL
            log.warning("OpenTelemetry", message=record.getMessage())


def _current() -> Span | None:
    span = trace.get_current_span()
    return span if span.is_recording() else None


def _context_with(span: Span) -> context.Context:
    return trace.set_span_in_context(span, context.Context())


def _remote(headers: RequestHeaders) -> SpanContext | None:
    """Return the client's span from the W3C header, else from the X-Ray header of AWS's clients."""
    remote = _w3c_context(headers)
    if remote is None and (header := headers.get("x-amzn-trace-id")):
        remote = _xray_context(header)
    return remote


def _w3c_context(headers: RequestHeaders) -> SpanContext | None:
    parent = headers.get("traceparent")
    if not parent:
        return None
    carrier = {"traceparent": parent, "tracestate": headers.get("tracestate") or ""}
    extracted = TraceContextTextMapPropagator().extract(carrier, context.Context())
    found = trace.get_current_span(extracted).get_span_context()
    return found if found.is_valid else None


def _xray_context(header: str) -> SpanContext | None:
    parent = traceparent(header)
    return None if parent is None else _w3c_context({"traceparent": parent})
