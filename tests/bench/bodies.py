"""How long a body keeps the event loop from other requests, by the processor time of its thread."""

import time
from contextlib import suppress

from bench.load import Outcome
from bench.record import Pair
from bench.run import Measure, Run
from skipmq.actions import checks
from skipmq.protocol import codec, errors, limits
from skipmq.protocol.call import Request
from skipmq.protocol.requests import AttributeValue

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
FORM = b"Action=SendMessage&QueueUrl=/000000000000/q&MessageBody="
FORMS = {
    "escapes": filled(FORM, b"%41", b""),
    "escapes apart": filled(FORM, b"%41a", b""),
    "escapes in fields": filled(FORM, b"&" + b"%41" * 1_200, b""),
    "broken escapes": filled(FORM, b"%4", b""),
    "plus signs": filled(FORM, b"+", b""),
    "backslashes": filled(FORM, b"\\", b"%41" * 100),
}
# More digits than any number may have.
NUMBERS = {
    "9 a million times": "9" * 1_000_000,
    "0 a million times": "0" * 1_000_000 + "1",
    "an exponent of a million": "1e" + "9" * 1_000_000,
}


def bodies(run: Run) -> None:
    """The dearest bodies to decode against one that is as long and valid."""
    run.absent = {}
    measures = {"valid": _decoding(PLAIN)} | {n: _decoding(body) for n, body in WORST.items()}
    pairs = [Pair(name, "valid", 4) for name in WORST]
    _compare(run, "AWS JSON", measures, "valid", pairs)
    measures = {"valid": _decoding(PLAIN)} | {n: _decoding(b, json=False) for n, b in FORMS.items()}
    # The standard library's parser takes a hundred times as long for some.
    _compare(run, "forms", measures, "valid", [Pair(name, "valid", 15) for name in FORMS])
    text = NUMBERS["9 a million times"]
    measures = {"text": _checking("String", text)}
    measures |= {name: _checking("Number", number) for name, number in NUMBERS.items()}
    _compare(run, "numbers", measures, "text", [Pair(name, "text", 2) for name in NUMBERS])


def _compare(
    run: Run, title: str, measures: dict[str, Measure], reference: str, pairs: list[Pair]
) -> None:
    run.compare(title, "ms", measures, reference, warm=False, less_is_better=True, pairs=pairs)


def _decoding(body: bytes, *, json: bool = True) -> Measure:
    target = {"x-amz-target": "AmazonSQS.SendMessageBatch"} if json else {}
    content_type = "application/x-www-form-urlencoded"
    headers = target or {"content-type": content_type}
    request = Request("POST", "/", headers, "", body, "http://localhost", "bench")

    def decode(_: int) -> Outcome:
        began = time.thread_time()
        with suppress(errors.SqsError):
            codec.decode(request)
        return Outcome(1e3 * (time.thread_time() - began), {})

    return decode


def _checking(kind: str, text: str) -> Measure:
    attributes = {"n": AttributeValue(DataType=kind, StringValue=text)}

    def check(_: int) -> Outcome:
        began = time.thread_time()
        with suppress(errors.InvalidParameterValueException):
            checks.message_attributes(attributes)
        return Outcome(1e3 * (time.thread_time() - began), {})

    return check
