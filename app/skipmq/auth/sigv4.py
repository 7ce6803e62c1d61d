"""Verification of AWS Signature Version 4, in the Authorization header or in the query string.

A signature covers all that determines the request: the method, the path, every query parameter, the
host, every `x-amz-*` header and the body. The body's digest is computed here: the request's own
X-Amz-Content-Sha256 is not trusted.
Source: AWS Identity and Access Management User Guide, "Create a signed AWS API request" and
"Authenticating Requests: Using Query Parameters"; errors: SQS API Reference, "Common Errors".
"""

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

import msgspec
from cryptography.hazmat.primitives.hmac import HMAC

from skipmq.auth.keys import AccessKey
from skipmq.protocol import errors
from skipmq.protocol.call import Request

ALGORITHM = "AWS4-HMAC-SHA256"
# Maximum clock difference between client and server, in seconds.
WINDOW = 900
MAXIMUM_EXPIRES = 604_800

_AMZ_PREFIX = "x-amz-"
_HEAD = re.compile(rf"{ALGORITHM} +Credential=([^\s,]+), *SignedHeaders=([^\s,]+), *")
# Limits on cached text, so that the caches cannot exhaust memory.
_MAXIMUM_HEAD = _MAXIMUM_CACHED_NAMES = 4_096
_CREDENTIAL = re.compile(r"([^/\s]+)/([0-9]{8})/([a-z0-9-]{1,32})/(s[qn]s)/aws4_request")
_HEADER_NAMES = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+(?:;[a-z0-9!#$%&'*+.^_`|~-]+)*")
_SIGNATURE = re.compile("[0-9a-f]{64}")
_DATE = re.compile("([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})Z")
_SECONDS = re.compile("[0-9]{1,6}")
_PARAMETERS = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")
_UNSIGNED = "Headers that begin with 'x-amz-' must be signed: '{}' is not."
_UNRESERVED = "-_.~"
_PLAIN_PATH = re.compile("/|(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)+/?")
_SPACES = re.compile("[ \t]+")

Pairs = list[tuple[bytes, bytes]]


class _Scope(NamedTuple):
    """The credential scope of a signature, the names of the signed headers, and their form."""

    key_id: str
    day: str
    region: str
    service: str
    text: str
    signed: tuple[str, ...]
    form: str


class _Claim(msgspec.Struct, frozen=True, gc=False):
    """A signature as sent; it expires `seconds` after its date."""

    scope: _Scope
    signature: str
    date: str
    seconds: int
    token: str | None
    query: str


def verify(
    request: Request,
    keys: Mapping[str, AccessKey],
    now: float,
    public_host: str | None = None,
) -> tuple[AccessKey, str]:
    """Return the key that signed a request and the region of its signature.

    `now` is in seconds since 1970. The signature may be over `public_host` instead of the Host
    header, because a proxy may have changed that.

    Raises errors.MissingAuthenticationToken, errors.IncompleteSignature,
    errors.InvalidClientTokenId, errors.ExpiredToken, errors.RequestExpired,
    errors.SignatureDoesNotMatch.
    """
    given = request.headers
    is_canonical = getattr(given, "is_canonical", False)
    headers: Mapping[str, str]
    if is_canonical and isinstance(given, dict):
        headers = given
    else:
        headers = canonical_headers(given.items())
    claim = _claim(request.query, headers)
    scope = claim.scope
    names = tuple(headers)
    is_short = is_canonical or len("".join(names)) <= _MAXIMUM_CACHED_NAMES
    (_check_signed if is_short else _check_signed.__wrapped__)(scope.signed, names)
    key = keys.get(scope.key_id)
    if key is None:
        raise errors.InvalidClientTokenId
    key.check(claim.token, now)
    _check_date(claim, now)
    path = canonical_path(request.path)
    body = sha256(request.body).hexdigest()
    signer = key.signer(scope.day, scope.region, scope.service)
    head = f"{ALGORITHM}\n{claim.date}\n{scope.text}\n"
    sent = headers["host"]
    for host in (sent,) if public_host is None or public_host == sent else (sent, public_host):
        if host is not sent:
            headers = {**headers, "host": host}
        lines = scope.form % tuple(map(headers.__getitem__, scope.signed))
        text = canonical_request(request.method, path, claim.query, lines, body)
        expected = signature(signer, head, text)
        if hmac.compare_digest(claim.signature, expected):
            return key, scope.region
    raise errors.SignatureDoesNotMatch


def _claim(query: str, headers: Mapping[str, str]) -> _Claim:
    """Return the signature of a request.

    Raises errors.MissingAuthenticationToken, errors.IncompleteSignature.
    """
    authorization = headers.get("authorization")
    if not query:
        if authorization is None:
            raise errors.MissingAuthenticationToken
        return _header_claim(authorization, headers, "")
    if ";" in query:
        raise errors.IncompleteSignature("The query string must have ';' as %3B.")
    pairs = pairs_of(query)
    names = {name.lower() if name.lower().startswith(b"x-amz-") else name for name, _ in pairs}
    if len(names) < len(pairs):
        raise errors.IncompleteSignature("The query string has a parameter twice.")
    is_presigned = any(name.startswith(b"x-amz-") for name in names)
    if authorization is None:
        if not is_presigned:
            raise errors.MissingAuthenticationToken
        return _query_claim(pairs)
    if is_presigned:
        raise errors.IncompleteSignature("A request has one signature, and this one has two.")
    return _header_claim(authorization, headers, canonical_query(pairs))


def _header_claim(authorization: str, headers: Mapping[str, str], query: str) -> _Claim:
    if not authorization.startswith(f"{ALGORITHM} "):
        algorithm = errors.shown(authorization.partition(" ")[0])
        raise errors.IncompleteSignature(f"Unsupported AWS 'algorithm': '{algorithm}'.")
    # All requests that a client signs on a day have the same head, so it is parsed once.
    head, _, signature_sent = authorization.rpartition("Signature=")
    if len(head) > _MAXIMUM_HEAD:
        raise errors.IncompleteSignature("The Authorization header is too long.")
    scope = _head(head)
    _check_form(signature_sent)
    date = headers.get("x-amz-date")
    if date is None:
        raise errors.IncompleteSignature("Authorization header requires an 'X-Amz-Date' header.")
    return _Claim(scope, signature_sent, date, WINDOW, headers.get("x-amz-security-token"), query)


@lru_cache(maxsize=1024)
def _head(head: str) -> _Scope:
    match = _HEAD.fullmatch(head)
    if match is None:
        raise errors.IncompleteSignature(
            "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature', in this"
            " order and once each."
        )
    return _scope(match[1], match[2])


def _query_claim(pairs: Pairs) -> _Claim:
    given: dict[str, str] = {}
    for name, value in pairs:
        if name.startswith(b"X-Amz-"):
            given[name[6:].decode("latin-1")] = value.decode("latin-1")
    for missing in [name for name in _PARAMETERS if not given.get(name)]:
        raise errors.IncompleteSignature(
            f"AWS query-string parameters must include 'X-Amz-{missing}'."
        )
    if given["Algorithm"] != ALGORITHM:
        algorithm = errors.shown(given["Algorithm"])
        raise errors.IncompleteSignature(f"Unsupported AWS 'algorithm': '{algorithm}'.")
    expires = given["Expires"]
    if not (_SECONDS.fullmatch(expires) and 1 <= int(expires) <= MAXIMUM_EXPIRES):
        raise errors.IncompleteSignature(
            f"X-Amz-Expires must be a number of seconds from 1 to {MAXIMUM_EXPIRES}."
        )
    _check_form(given["Signature"])
    signed = canonical_query([pair for pair in pairs if pair[0] != b"X-Amz-Signature"])
    return _Claim(
        _scope(given["Credential"], given["SignedHeaders"]),
        given["Signature"],
        given["Date"],
        int(expires),
        given.get("Security-Token"),
        signed,
    )


def _scope(credential: str, names: str) -> _Scope:
    match = _CREDENTIAL.fullmatch(credential)
    if match is None:
        raise errors.IncompleteSignature(
            "Credential must be KEY/YYYYMMDD/REGION/sqs/aws4_request, got"
            f" '{errors.shown(credential)}'."
        )
    signed = tuple(names.split(";"))
    if not _HEADER_NAMES.fullmatch(names) or list(signed) != sorted(set(signed)):
        raise errors.IncompleteSignature(
            "SignedHeaders must be names in lower case, in order and once each, with ';' between."
        )
    key_id, _, text = credential.partition("/")
    return _Scope(key_id, match[2], match[3], match[4], text, signed, headers_form(signed))


def _check_form(signature_sent: str) -> None:
    if not _SIGNATURE.fullmatch(signature_sent):
        raise errors.IncompleteSignature("The signature must be 64 hexadecimal digits.")


@lru_cache(maxsize=1024)
def _check_signed(signed: tuple[str, ...], headers: tuple[str, ...]) -> None:
    """Check that the host and every `x-amz-*` header are signed and every signed header is sent."""
    if "host" not in signed:
        raise errors.SignatureDoesNotMatch("'Host' must be a 'SignedHeader' in the signature.")
    for name in headers:
        if name.startswith(_AMZ_PREFIX) and name not in signed:
            raise errors.SignatureDoesNotMatch(_UNSIGNED.format(errors.shown(name)))
    for name in signed:
        if name not in headers:
            raise errors.SignatureDoesNotMatch(
                f"The signed header '{errors.shown(name)}' is missing."
            )


def _check_date(claim: _Claim, now: float) -> None:
    date = claim.date
    signed_at = _signed_at(date, claim.scope.day)
    if signed_at - WINDOW <= now <= signed_at + claim.seconds:
        return
    fault = "expired" if now > signed_at else "not yet current"
    here = f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"
    raise errors.RequestExpired(f"Signature {fault}: {date}, and it is {here} now.")


@lru_cache(maxsize=256)
def _signed_at(date: str, day: str) -> float:
    """Return the seconds since 1970 of a date, which is on the day of the credential scope."""
    signed_at = _seconds(date)
    if day != date[:8]:
        raise errors.SignatureDoesNotMatch(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date:"
            f" '{day}' != '{date[:8]}', from '{date}'."
        )
    return signed_at


def _seconds(date: str) -> float:
    match = _DATE.fullmatch(date)
    try:
        if match is not None:
            return datetime(*map(int, match.groups()), tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]
    except ValueError:
        pass
    raise errors.IncompleteSignature(
        f"Date must be in ISO-8601 'basic format'. Got '{errors.shown(date)}'."
    )


def canonical_request(method: str, path: str, query: str, headers: str, body: str) -> str:
    """Return the canonical request from its canonical parts."""
    return f"{method}\n{path}\n{query}\n{headers}\n{body}"


def headers_form(signed: Sequence[str]) -> str:
    """Return the signed headers as they are in a canonical request, with %s for each value."""
    names = [name.replace("%", "%%") for name in signed]
    lines = "".join([f"{name}:%s\n" for name in names])
    return f"{lines}\n{';'.join(names)}"


def signature(signer: HMAC, head: str, text: str) -> str:
    """Return the signature of a canonical request."""
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    # A copy takes a third of the time of hmac.digest, which derives the key state again.
    signing = signer.copy()
    signing.update(f"{head}{digest}".encode())
    return signing.finalize().hex()


def canonical_path(path: str) -> str:
    """Return a decoded path URL-encoded twice, as the signature requires.

    Raises errors.SignatureDoesNotMatch for a path with empty or dot segments: clients sign the
    normalised path, so the signature would not cover the path that is executed.
    """
    if _PLAIN_PATH.fullmatch(path):
        return path
    if normalised(path) != path:
        raise errors.SignatureDoesNotMatch
    safe = f"/{_UNRESERVED}"
    return quote(quote(path, safe=safe, errors="surrogatepass"), safe=safe)


def normalised(path: str) -> str:
    """Return a path without empty and dot segments (RFC 3986, section 5.2.4)."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    slash = "/" if segments and path.endswith("/") else ""
    return f"/{'/'.join(segments)}{slash}"


def canonical_query(pairs: Iterable[tuple[bytes, bytes]]) -> str:
    """Return query parameters encoded and sorted."""
    encoded = sorted(
        (quote_from_bytes(name, safe=_UNRESERVED), quote_from_bytes(value, safe=_UNRESERVED))
        for name, value in pairs
    )
    return "&".join([f"{name}={value}" for name, value in encoded])


def pairs_of(query: str) -> Pairs:
    """Return the decoded parameters of a query string, as the Query protocol decodes them."""
    pairs = []
    for part in query.encode("latin-1", "replace").replace(b"+", b" ").split(b"&"):
        name, _, value = part.partition(b"=")
        pairs.append((unquote_to_bytes(name), unquote_to_bytes(value)))
    return pairs


def canonical_headers(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by name: spaces collapsed, values of repeated headers joined by commas."""
    listed = [*items]
    headers = dict(listed)
    text = "\n".join(["", *headers.values(), ""])
    is_regular = len(headers) == len(listed) and "  " not in text and "\t" not in text
    if is_regular and " \n" not in text and "\n " not in text:
        return headers
    headers = {}
    for name, value in listed:
        canonical = _SPACES.sub(" ", value).strip(" ")
        headers[name] = f"{headers[name]},{canonical}" if name in headers else canonical
    return headers
