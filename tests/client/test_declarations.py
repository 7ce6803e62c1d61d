"""What is checked when a consumer is declared: one sentence that says what to change."""

import functools
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from skipmq import App, Context, Queue
from skipmq.client import ClientError


class Order:
    pass


@dataclass
class Plain:
    n: int


class Special(Plain):
    pass


texts = Queue("orders", str)
mappings = Queue("orders", dict)


def body(body: str) -> None: ...
def body_and_context(body: str, context: Context) -> None: ...
def without_annotations(body, context): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
def of_anything(body: object, context: Any) -> None: ...
def with_a_default(body: str, tries: int = 3) -> None: ...
def with_options(body: str, **options: Any) -> None: ...
def forward(body: "OnlyForTypeCheckers") -> None: ...  # type: ignore[name-defined]  # noqa: F821


class Handlers:
    def method(self, body: str, context: Context) -> None: ...
    async def __call__(self, body: str) -> None: ...


@pytest.mark.parametrize(
    ("handler", "takes_context", "is_async"),
    [
        (body, False, False),
        (body_and_context, True, False),
        (without_annotations, True, False),
        (of_anything, True, False),
        (with_a_default, False, False),
        (with_options, False, False),
        (forward, False, False),
        (Handlers().method, True, False),
        (Handlers(), False, True),
        (functools.partial(body_and_context, context=None), False, False),
    ],
)
def test_handler_that_takes_bodies_is_taken_and_stays_what_it_is(
    handler: Any, takes_context: bool, is_async: bool
) -> None:
    app = App()

    assert app.consumer(texts)(handler) is handler

    (consumer,) = app.consumers
    assert (consumer.takes_context, consumer.is_async) == (takes_context, is_async)


@pytest.mark.parametrize(
    ("queue", "annotation", "batch"),
    [
        (mappings, dict[str, Any], None),
        (Queue("orders", dict[str, int]), dict, None),
        (Queue("orders", Special), Plain, None),
        (mappings, list[dict[str, Any]], 5),
        (mappings, list, 5),
        (Queue("orders"), Plain | None, None),
    ],
)
def test_annotation_may_be_more_exact_or_less(queue: Any, annotation: Any, batch: Any) -> None:
    def handle(body: Any) -> None: ...

    handle.__annotations__["body"] = annotation
    App().consumer(queue, batch=batch)(handle)


def none() -> None: ...
def three(body: str, context: Context, more: int) -> None: ...
def keyword(body: str, *, more: int) -> None: ...
def of_orders(body: Order) -> None: ...
def of_a_number(body: str, context: int) -> None: ...
def of_a_list(batch: list[Order]) -> None: ...


@pytest.mark.parametrize(
    ("handler", "options", "text"),
    [
        (none, {}, "none() -> None is no handler: it takes (body) or (body, context)"),
        (three, {}, "is no handler: it takes (body) or (body, context)"),
        (keyword, {}, "is no handler: it takes (body) or (body, context)"),
        (none, {"batch": 5}, "it takes (batch) or (batch, context)"),
        (7, {}, "7 is no handler: a handler is a function (body) or (body, context)"),
        (
            of_orders,
            {},
            "of_orders takes a Order, and the queue 'orders' has str: make its first parameter a"
            " str",
        ),
        (of_a_number, {}, "takes a int as its second parameter, which is the skipmq.Context"),
        (body, {"batch": 5}, "its first parameter is a str: make it a list[str]"),
        (of_a_list, {"batch": 5}, "has str: make its first parameter a list[str]"),
        (body, {"concurrency": 0}, "concurrency=0 is too little: 1 is the least"),
        (body, {"visibility": 0}, "visibility=0 is too little"),
        (body, {"concurrency": True}, "concurrency=True is no whole number: write 1 or more"),
        (body, {"visibility": 1.5}, "visibility=1.5 is no whole number"),
        (body, {"visibility": timedelta(minutes=1)}, "is in seconds: write 60"),
        (body, {"visibility": None}, "visibility=None is no whole number"),
        (body, {"attempts": "5"}, "attempts='5' is no whole number"),
        (body, {"batch": 5, "seconds": float("nan")}, "seconds=nan is no number of seconds"),
        (body, {"batch": 5, "seconds": -1}, "seconds=-1 is no number of seconds"),
        (body, {"visibility": 43_201}, "visibility=43201 is more than 12 hours"),
        (body, {"attempts": 0}, "attempts=0 is too little"),
        (body, {"batch": 0}, "batch=0 is too little"),
        (body, {"seconds": 2}, "seconds is how long to wait for a batch: say batch too"),
    ],
)
def test_handler_that_cannot_take_bodies_is_refused(
    handler: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ClientError) as caught:
        App().consumer(texts, **options)(handler)

    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_queue_has_one_consumer() -> None:
    app = App()
    app.consumer(texts)(body)
    app.consumer(Queue("orders", str, account="000000000001"))(body)

    with pytest.raises(ClientError, match="body and body_and_context would share the messages of"):
        app.consumer(texts)(body_and_context)


def test_app_without_a_consumer_does_not_run() -> None:
    with pytest.raises(ClientError, match="the app has no consumer: decorate"):
        App("postgresql://").run()


@pytest.mark.parametrize("queue", ["orders", body, Queue])
def test_consumer_of_what_is_no_queue_is_refused(queue: Any) -> None:
    with pytest.raises(ClientError, match=r"is no Queue: @app.consumer\(Queue\('orders', dict"):
        App().consumer(queue)
