"""Programs that are traced by OpenTelemetry: each sends, consumes, and prints its spans as JSON.

For each line of the input a process runs the scenario of a URL, a fork of one that has imported the
modules, which takes most of a program's time.
"""

import json
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from skipmq import App, Context, DeadLetter, Discard, Queue, Retry

ORDERS, FIFO = Queue("orders", dict), Queue("orders.fifo", dict)
tracer = trace.get_tracer("shop")


def connected(url: str) -> AbstractContextManager[Any]:
    """Give what `using` takes: a connection in a transaction, or the URL of the broker."""
    return nullcontext(url) if url.startswith("http") else psycopg.connect(url)


def send(url: str, *bodies: dict[str, Any], queue: Queue[Any] = ORDERS, **options: Any) -> None:
    """Send messages one by one, within a span of the program."""
    with tracer.start_as_current_span("request"), connected(url) as using:
        for body in bodies:
            queue.send(body, using=using, **options)


def one(url: str) -> list[Any]:
    """Send a message with baggage; its handler, in a thread, has a span of its own."""
    app, seen = App(url), []

    @app.consumer(ORDERS)
    def sell(_: dict[str, Any], context: Context) -> None:
        with tracer.start_as_current_span("sell"):
            seen.append([sorted(context.message.attributes), baggage.get_baggage("tenant")])

    token = context.attach(baggage.set_baggage("tenant", "blue"))
    send(url, {}, attributes={"own": 1})
    context.detach(token)
    app.drain()
    return seen


def outcomes(url: str) -> list[Any]:
    """Consume messages in coroutines, each with another outcome."""
    app = App(url)

    @app.consumer(ORDERS, concurrency=4, retry=Retry.backoff(600, most=600))
    async def sell(order: dict[str, Any]) -> None:
        match order["do"]:
            case "retry":
                raise Retry("later", after=600)
            case "discard":
                raise Discard("unwanted")
            case "dead":
                raise DeadLetter("no such item")
            case "fail":
                raise ValueError("broken")

    send(url, *({"do": each} for each in ("sell", "retry", "discard", "dead", "fail")))
    return [app.run(once=True)]


def batch(url: str) -> list[Any]:
    """Consume what two requests sent as one batch."""
    app = App(url)

    @app.consumer(ORDERS, batch=5, seconds=30)
    def sell(_: list[dict[str, Any]]) -> None:
        pass

    send(url, {}, {})
    send(url, {})
    with connected(url) as using:
        ORDERS.send_many([{}, {}], using=using)
    return [app.run(once=True)]


def receive(url: str) -> list[Any]:
    """Consume what others sent, from within a span that is none of theirs."""
    app, seen = App(url), []

    @app.consumer(ORDERS)
    def sell(_: dict[str, Any], context: Context) -> None:
        seen.append(sorted(context.message.attributes))

    with tracer.start_as_current_span("unrelated"):
        app.drain()
    return seen


def many(url: str) -> list[Any]:
    """Send with nine attributes, with ten, and with a context of the sender's own."""
    send(url, {}, attributes={f"a{n}": n for n in range(9)})
    send(url, {}, attributes={f"a{n}": n for n in range(10)})
    send(url, {}, attributes={"traceparent": "mine"})
    return []


def twice(url: str) -> list[Any]:
    """Send the same body to a FIFO queue in two traces."""
    send(url, {"item": "tea"}, queue=FIFO, group="g")
    send(url, {"item": "tea"}, queue=FIFO, group="g")
    return []


def shown(span: ReadableSpan) -> dict[str, Any]:
    found, parent = span.context, span.parent
    assert found is not None
    return {
        "name": span.name,
        "trace": found.trace_id,
        "id": found.span_id,
        "parent": parent and parent.span_id,
        "kind": span.kind.name,
        "attributes": dict(span.attributes or {}),
        "links": [[link.context.trace_id, link.context.span_id] for link in span.links],
        "status": span.status.status_code.name,
        "reason": span.status.description,
        "errors": [(event.attributes or {})["exception.message"] for event in span.events],
    }


def run(name: str, url: str) -> str:
    """Run a scenario; return what it said, and its spans."""
    exporter = InMemorySpanExporter()
    if name != "untraced":
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
    scenario = {"untraced": one}.get(name) or globals()[name]
    said = scenario(url)
    spans = [shown(span) for span in exporter.get_finished_spans()]
    return json.dumps({"said": said, "spans": spans})


if __name__ == "__main__":
    for line in sys.stdin:
        if not (process := os.fork()):
            print(run(*line.split()), flush=True)  # noqa: T201 - the result.
            break
        _, status = os.waitpid(process, 0)
        if status:
            sys.exit("a scenario failed")
