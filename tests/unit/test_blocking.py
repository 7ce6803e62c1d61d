"""How long a body keeps the event loop from everybody else, by the processor time of its thread."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from skipmq import errors, limits, protocol
from skipmq.actions import checks
from skipmq.model import AttributeValue
from skipmq.protocol import Request

Ask = Callable[..., Request]
MOST = limits.REQUEST_BYTES
HEAD = b'{"QueueUrl":"/000000000000/q","Entries":['
ENTRY = b'{"Id":"a","MessageBody":"'


def filled(head: bytes, piece: bytes, tail: bytes) -> bytes:
    """Return a body of as many pieces as the longest that is read has room for."""
    return head + piece * ((MOST - len(head) - len(tail)) // len(piece)) + tail


# As dear as any body can be without being refused by its length.
PLAIN = filled(HEAD + ENTRY, b"\\u0041", b'"}]}')
WORST = {
    "surrogates": filled(HEAD + ENTRY, b"\\ud83d\\ude00", b'"}]}'),
    "unknown lists": filled(HEAD + b'],"a":[', b"[],", b"1]}"),
    "unknown numbers": filled(HEAD + b'],"a":[', b"1,", b"1]}"),
    "unknown names": filled(HEAD + b"],", b'"":1,', b'"":1}'),
    "entries": filled(HEAD, b'{"Id":"a","MessageBody":""},', b"1]}"),
    "attributes": filled(
        HEAD + b'{"Id":"a","MessageBody":"x","MessageAttributes":{',
        b'"":{"DataType":""},',
        b'"":{"DataType":""}}}]}',
    ),
    "lists for entries": filled(HEAD, b"[],", b"1]}"),
    "depth": filled(b"", b'{"a":', b""),
    "texts cut short": filled(HEAD + ENTRY, b"\\\\", b"\\"),
}


def seconds(ask: Ask, body: bytes, wire: str = "json") -> float:
    """Return the least processor time that decoding takes, of several times."""
    headers = {"X-Amz-Target": "AmazonSQS.SendMessageBatch"} if wire == "json" else {}
    request = ask(body, headers=headers)
    taken = []
    for _ in range(7):
        began = time.thread_time()
        with suppress(errors.SqsError):
            protocol.decode(request)
        taken.append(time.thread_time() - began)
    return min(taken)


@pytest.mark.parametrize("name", WORST)
def test_no_body_blocks_the_loop_much_longer_than_a_valid_one(ask: Ask, name: str) -> None:
    assert seconds(ask, WORST[name]) < 4 * seconds(ask, PLAIN)


FORM = b"Action=SendMessage&QueueUrl=/000000000000/q&MessageBody="
FORMS = {
    "escapes": filled(FORM, b"%41", b""),
    "escapes apart": filled(FORM, b"%41a", b""),
    "escapes in fields": filled(FORM, b"&" + b"%41" * 1_200, b""),
    "broken escapes": filled(FORM, b"%4", b""),
    "plus signs": filled(FORM, b"+", b""),
    "backslashes": filled(FORM, b"\\", b"%41" * 100),
}


@pytest.mark.parametrize("name", FORMS)
def test_no_form_blocks_the_loop_many_times_longer_than_a_valid_body(ask: Ask, name: str) -> None:
    """Give a form more time than JSON: the standard library took a hundred times as long."""
    assert seconds(ask, FORMS[name], wire="query") < 15 * seconds(ask, PLAIN)


@pytest.mark.parametrize("text", ["9" * 1_000_000, "0" * 1_000_000 + "1", "1e" + "9" * 1_000_000])
def test_number_of_a_megabyte_takes_no_longer_than_any_text(text: str) -> None:
    def taken(kind: str) -> float:
        times = []
        for _ in range(7):
            began = time.thread_time()
            with suppress(errors.InvalidParameterValueException):
                checks.message_attributes({"n": AttributeValue(DataType=kind, StringValue=text)})
            times.append(time.thread_time() - began)
        return min(times)

    assert taken("Number") < 2 * taken("String")
