import psycopg
import pytest

from skipmq.protocol.queue_attributes import ATTRIBUTES
from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number

SHOWN = "select skipmq.queue_attributes(q) from skipmq.queue q where name = %s"
INTEGERS = [name for name, attribute in ATTRIBUTES.items() if attribute.type is int]
CHOICES = [
    (name, choice)
    for name, attribute in ATTRIBUTES.items()
    for choice in attribute.allowed.choices
    if choice != "perMessageGroupId"  # Only with a scope of its own.
]


def test_attributes_are_texts_under_sqs_names(owner: Connection) -> None:
    Queue(owner, VisibilityTimeout=12)

    shown = number(owner, SHOWN, "orders")

    assert shown["VisibilityTimeout"] == "12"
    assert shown["SqsManagedSseEnabled"] == "true"
    assert shown["Policy"] == ""


def test_defaults_are_those_of_the_table_of_attributes(owner: Connection) -> None:
    Queue(owner)
    FifoQueue(owner)

    defaults = {name: attribute.default for name, attribute in ATTRIBUTES.items()}
    fifo = {name for name, attribute in ATTRIBUTES.items() if attribute.allowed.fifo}
    assert number(owner, SHOWN, "orders.fifo") == defaults | {"FifoQueue": "true"}
    assert number(owner, SHOWN, "orders") == {
        name: default for name, default in defaults.items() if name not in fifo
    }


@pytest.mark.parametrize("name", INTEGERS)
def test_bounds_are_those_of_the_table_of_attributes(owner: Connection, name: str) -> None:
    allowed = ATTRIBUTES[name].allowed
    Queue(owner, "least", **{name: allowed.minimum})
    Queue(owner, "most", **{name: allowed.maximum})

    for value in (allowed.minimum - 1, allowed.maximum + 1):
        with pytest.raises(psycopg.errors.CheckViolation), owner.transaction():
            Queue(owner, "beyond", **{name: value})


@pytest.mark.parametrize(("name", "choice"), CHOICES)
def test_choices_are_those_of_the_table_of_attributes(
    owner: Connection, name: str, choice: str
) -> None:
    make = FifoQueue if ATTRIBUTES[name].allowed.fifo else Queue
    queue = make(owner, **{name: choice})

    assert number(owner, SHOWN, queue.name)[name] == choice
    with pytest.raises(psycopg.errors.CheckViolation), owner.transaction():
        make(owner, "other.fifo" if make is FifoQueue else "other", **{name: "some"})
