"""What botocore signs is accepted; what is changed after that, by a single byte, is not."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote, unquote, unquote_to_bytes, urlencode

import pytest

from skipmq.auth.sigv4 import WINDOW, verify
from skipmq.protocol import errors
from skipmq.protocol.call import Request
from support.sigv4 import (
    FORM_HEADERS,
    HOST,
    JSON_HEADERS,
    KEYS,
    SESSION,
    URL,
    accepted,
    changed,
    now,
    presigned,
    signed,
)

T = TypeVar("T")
PATHS = ["/", "/123456789012/orders", "/queue/orders.fifo", "/queue/a%20b%2B%C3%A4"]
REGIONS = ["us-east-1", "eu-central-1", "us-gov-west-1"]
# What separates, quotes or decorates somewhere in a request.
SPECIAL = {ord(c) for c in "\0\t\n\r \"#%&'+,-./:;=?@~\u00a0\u00ff"}
PLAIN = "".join(map(chr, range(33, 127)))


class Requests:
    """Makes requests of all sorts, the same in each run."""

    def __init__(self) -> None:
        self._random = Random(4)  # noqa: S311 - not for secrets.

    def text(self, characters: str = PLAIN + " \t\u00e4\u20ac\U0001f600") -> str:
        return "".join(self._random.choices(characters, k=self._random.randrange(20)))

    def one(self, **options: Any) -> tuple[Request, str]:
        """Return a signed request and its region."""
        parameters = {self.text("abcXYZ09-_.~"): self.text() for _ in range(self._pick(range(4)))}
        query = urlencode(parameters, quote_via=quote, safe="-_.~")
        url = URL + self._pick(PATHS) + (f"?{query}" if query else "")
        headers = {f"x-amz-%s{n}": self.text(PLAIN + "   ") for n in range(self._pick(range(3)))}
        by = self._pick([{}, {"key": SESSION, "token": "a token"}])
        body, region = self._random.randbytes(self._pick(range(200))), self._pick(REGIONS)
        method = "POST" if body else "GET"
        return signed(method, url, body, headers=headers, region=region, **by, **options), region

    def _pick(self, of: Sequence[T]) -> T:
        return self._random.choice(of)


@pytest.mark.parametrize("seconds", [0, 60, 604_800])
def test_what_botocore_signs_is_accepted(seconds: int) -> None:
    requests = Requests()

    for _ in range(500):
        request, region = requests.one(seconds=seconds)
        assert accepted(request) == ("123456789012", region)


def _form() -> Request:
    query = "Action=SendMessage&MessageBody=a%20b%2Bc"
    return signed(
        "POST", f"{URL}/queue/orders?{query}", b"Version=2012-11-05", headers=FORM_HEADERS
    )


ORIGINALS = {
    "json": lambda: signed(body=b'{"QueueUrl": "orders", "MessageBody": "a  b"}'),
    "query": _form,
    "session": lambda: signed(key=SESSION, token="a token"),
    "presigned": lambda: presigned(f"{URL}/queue/orders?Action=SendMessage&MessageBody=a%20b"),
    "presigned post": lambda: signed(headers=JSON_HEADERS, seconds=900),
}


def _meaning(request: Request) -> tuple[Any, ...]:
    """Return what a request says, however it spells it."""
    fields = [
        tuple(unquote_to_bytes(part.replace("+", " ")) for part in field.partition("=")[::2])
        for field in request.query.split("&")
    ]
    headers = {name: " ".join(value.split()) for name, value in request.headers.items()}
    return request.method, request.path, sorted(fields), headers, request.body


def _mutants(request: Request, *, exhaustive: bool) -> Iterator[Request]:
    """Give a request with each of its bytes changed, to those near it or to every other value."""
    changes = partial(_changes, exhaustive=exhaustive)
    for text in changes(request.method):
        yield changed(request, method=text)
    for text in changes(quote(request.path)):
        yield changed(request, path=unquote(text))
    for text in changes(request.query):
        yield changed(request, query=text)
    for text in changes(request.body.decode("latin-1")):
        yield changed(request, body=text.encode("latin-1"))
    for name, value in request.headers.items():
        for text in changes(value):
            yield changed(request, headers={name: text})
        # They arrive in lower case.
        for text in {text.lower() for text in changes(name)} - {name}:
            yield changed(request, headers={name: None, text: value})


def _changes(text: str, *, exhaustive: bool) -> Iterator[str]:
    for place, old in enumerate(text):
        near = {ord(old) ^ 1 << bit for bit in range(8)} | SPECIAL
        for byte in range(256) if exhaustive else sorted(near):
            if chr(byte) != old:
                yield f"{text[:place]}{chr(byte)}{text[place + 1 :]}"


@pytest.mark.parametrize("exhaustive", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ORIGINALS)
def test_request_with_a_byte_changed_is_refused_or_says_the_same(
    kind: str, *, exhaustive: bool
) -> None:
    original = ORIGINALS[kind]()
    original = changed(original, headers=_unsigned_headers(original))
    by = now()
    verify(original, KEYS, by)
    count = let_in = 0

    for mutant in _mutants(original, exhaustive=exhaustive):
        count += 1
        try:
            verify(mutant, KEYS, by)
        except errors.SqsError:
            continue
        let_in += 1
        assert _meaning(mutant) == _meaning(original), mutant

    assert count > (50_000 if exhaustive else 5_000)
    assert let_in < count / 100


def _unsigned_headers(request: Request) -> dict[str, None]:
    """Return what removes the headers that are not signed, which anybody may change."""
    said = request.headers.get("authorization") or unquote(request.query)
    names = said.partition("SignedHeaders=")[2].partition("&")[0].partition(",")[0]
    kept = {*names.split(";"), "authorization"}
    return dict.fromkeys({name for name, _ in request.headers.items()} - kept)


@pytest.mark.parametrize("make", [signed, presigned])
def test_clock_may_differ_by_a_quarter_of_an_hour(make: Any) -> None:
    request = make()
    date = request.headers.get("x-amz-date") or unquote(request.query).partition("X-Amz-Date=")[2]
    at = _seconds(date[:16])
    last = WINDOW if make is signed else 60

    for seconds in (-WINDOW, 0, last):
        assert accepted(request, now=at + seconds)
    for seconds in (-WINDOW - 1, last + 1):
        with pytest.raises(errors.RequestExpired, match=date[:16]):
            verify(request, KEYS, at + seconds)


def _seconds(date: str) -> float:
    return datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def test_public_host_may_be_signed_in_place_of_the_one_that_arrives() -> None:
    behind_proxy = changed(signed(), headers={"host": "10.0.0.7"})

    assert accepted(behind_proxy, public_host=HOST)
    assert accepted(signed(), public_host="sqs.example.org")
    with pytest.raises(errors.SignatureDoesNotMatch):
        verify(behind_proxy, KEYS, now(), public_host="sqs.example.org")
