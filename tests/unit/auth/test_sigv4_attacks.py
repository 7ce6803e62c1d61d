"""The ways in which others have let people in, one by one."""

from hashlib import sha256
from typing import Any
from urllib.parse import unquote

import pytest

from skipmq.auth.sigv4 import verify
from skipmq.protocol import errors
from skipmq.protocol.call import Request
from support.sigv4 import (
    FORM_HEADERS,
    JSON_HEADERS,
    KEY,
    KEYS,
    SESSION,
    URL,
    changed,
    now,
    presigned,
    signed,
)

HARMLESS, HARMFUL = b"Action=ListQueues", b"Action=PurgeQueue"
TWICE = "The query string has a parameter twice."


def refuse(
    request: Request, error: type[errors.SqsError], text: str | None = None, **options: Any
) -> None:
    with pytest.raises(error, match=text) as caught:
        verify(request, KEYS, **{"now": now()} | options)
    assert type(caught.value) is error
    assert KEY.secret not in caught.value.message


def header(request: Request, name: str = "authorization") -> str:
    value = request.headers.get(name)
    assert value is not None
    return value


def test_payload_hash_is_not_trusted_when_the_body_differs() -> None:
    said = {"X-Amz-Content-SHA256": sha256(HARMLESS).hexdigest()}
    request = signed(body=HARMLESS, headers=FORM_HEADERS | said)

    assert verify(request, KEYS, now())
    refuse(changed(request, body=HARMFUL), errors.SignatureDoesNotMatch)


@pytest.mark.parametrize(
    "said", ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", sha256(b"").hexdigest()]
)
def test_payload_cannot_be_left_unsigned(said: str) -> None:
    # botocore signs the digest that it finds in the header.
    request = signed(body=HARMLESS, headers=FORM_HEADERS | {"X-Amz-Content-SHA256": said})

    refuse(request, errors.SignatureDoesNotMatch)
    refuse(changed(request, body=HARMFUL), errors.SignatureDoesNotMatch)


def test_body_of_a_presigned_request_is_signed() -> None:
    request = signed(body=HARMLESS, headers=FORM_HEADERS, seconds=60)

    assert verify(request, KEYS, now())
    refuse(changed(request, body=HARMFUL), errors.SignatureDoesNotMatch)
    refuse(changed(presigned(), body=HARMFUL), errors.SignatureDoesNotMatch)


def test_header_and_query_signature_together_are_refused() -> None:
    own, others = signed(body=b"", headers={}), presigned(key=SESSION, token="a token")

    refuse(changed(own, query=others.query), errors.IncompleteSignature, "one signature")
    refuse(changed(others, headers={"authorization": ""}), errors.IncompleteSignature)
    stated = signed(url=f"{URL}/?X-Amz-Credential=x")
    refuse(stated, errors.IncompleteSignature, "one signature")


def test_identity_is_that_of_the_signature_which_was_checked() -> None:
    request = signed(url=f"{URL}/?AWSAccessKeyId={SESSION.id}&Credential={SESSION.id}")

    key, _ = verify(request, KEYS, now())

    assert key is KEY


@pytest.mark.parametrize("name", ["x-amz-target", "x-amz-security-token", "x-amz-anything"])
@pytest.mark.parametrize("make", [signed, presigned])
def test_unsigned_amz_header_is_refused(make: Any, name: str) -> None:
    request = make(headers=FORM_HEADERS)

    refuse(
        changed(request, headers={name: "AmazonSQS.PurgeQueue"}),
        errors.SignatureDoesNotMatch,
        f"'{name}' is not",
    )


def test_target_is_signed() -> None:
    request = signed()
    unsigned = header(request).replace(";x-amz-target", "")

    refuse(
        changed(request, headers={"authorization": unsigned}),
        errors.SignatureDoesNotMatch,
        "'x-amz-target' is not",
    )
    refuse(
        changed(request, headers={"x-amz-target": "AmazonSQS.PurgeQueue"}),
        errors.SignatureDoesNotMatch,
    )


def test_host_must_be_signed_and_there() -> None:
    request = signed()
    unsigned = header(request).replace("host;", "")

    refuse(
        changed(request, headers={"authorization": unsigned}),
        errors.SignatureDoesNotMatch,
        "'Host' must be",
    )
    refuse(changed(request, headers={"host": None}), errors.SignatureDoesNotMatch, "'host'")
    refuse(changed(request, headers={"host": "other"}), errors.SignatureDoesNotMatch)


@pytest.mark.parametrize(
    "algorithm", ["AWS4-HMAC-SHA512", "AWS4-HMAC-MD5", "AWS4-ECDSA-P256-SHA256", "none", "Basic"]
)
def test_algorithm_is_pinned(algorithm: str) -> None:
    request, url = signed(), presigned()

    changed_header = header(request).replace("AWS4-HMAC-SHA256", algorithm)
    changed_query = url.query.replace("AWS4-HMAC-SHA256", algorithm)
    refuse(
        changed(request, headers={"authorization": changed_header}),
        errors.IncompleteSignature,
        algorithm,
    )
    refuse(changed(url, query=changed_query), errors.IncompleteSignature, algorithm)


def test_expiry_of_a_url_is_applied() -> None:
    url = presigned(seconds=60)

    assert verify(url, KEYS, now())
    refuse(url, errors.RequestExpired, now=now() + 62)


@pytest.mark.parametrize("seconds", ["0", "-1", "604801", "9999999", "1e3", " 60", "\u0661", ""])
def test_expiry_out_of_range_is_refused(seconds: str) -> None:
    url = presigned(seconds=60)

    refuse(
        changed(url, query=url.query.replace("Expires=60", f"Expires={seconds}")),
        errors.IncompleteSignature,
    )


def test_expiry_cannot_be_left_out() -> None:
    url = presigned(seconds=60)

    refuse(
        changed(url, query=url.query.replace("&X-Amz-Expires=60", "")),
        errors.IncompleteSignature,
        "X-Amz-Expires",
    )


@pytest.mark.parametrize("days", [-1, 1, -3650])
def test_stale_date_is_refused(days: int) -> None:
    refuse(signed(), errors.RequestExpired, now=now() + days * 86_400)
    refuse(signed(), errors.RequestExpired, now=now() + days * 901)


@pytest.mark.parametrize(
    "date", ["", "20261122", "20261399T000000Z", "20261122T000000", "2026112\u0662T000000Z", "now"]
)
def test_malformed_date_is_refused(date: str) -> None:
    refuse(
        changed(signed(), headers={"x-amz-date": date}),
        errors.IncompleteSignature,
        "ISO-8601",
    )


def test_date_must_be_there() -> None:
    request = signed()
    unsigned = header(request).replace("x-amz-date;", "")

    refuse(
        changed(request, headers={"x-amz-date": None, "authorization": unsigned}),
        errors.IncompleteSignature,
        "X-Amz-Date",
    )


def test_session_token_is_checked() -> None:
    request = signed(key=SESSION, token="a token")
    assert verify(request, KEYS, now())

    refuse(signed(key=SESSION), errors.InvalidClientTokenId)
    refuse(signed(key=SESSION, token="another"), errors.InvalidClientTokenId)
    refuse(presigned(key=SESSION), errors.InvalidClientTokenId)
    refuse(presigned(key=SESSION, token="another"), errors.InvalidClientTokenId)
    # A token does not make a permanent key temporary.
    refuse(signed(token="a token"), errors.InvalidClientTokenId)
    refuse(
        changed(request, headers={"x-amz-security-token": "another"}), errors.InvalidClientTokenId
    )


def test_session_ends() -> None:
    request = signed(key=SESSION, token="a token")
    assert SESSION.expires_at is not None

    refuse(request, errors.ExpiredToken, now=SESSION.expires_at)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/us-east-1/", "/eu-west-1/"),
        ("/sqs/", "/iam/"),
        ("/sqs/", "/SQS/"),
        ("aws4_request", "aws5_request"),
        ("/sqs/aws4_request", "/sqs/aws4_request/sqs/aws4_request"),
        ("/us-east-1/", "/us-east-1/eu-west-1/"),
        ("/us-east-1/", "//"),
    ],
)
def test_scope_cannot_reroute(old: str, new: str) -> None:
    request, url = signed(), presigned()

    for forged in (
        changed(request, headers={"authorization": header(request).replace(old, new)}),
        changed(url, query=unquote(url.query).replace(old, new).replace(";", "%3B")),
    ):
        with pytest.raises((errors.IncompleteSignature, errors.SignatureDoesNotMatch)):
            verify(forged, KEYS, now())


def test_signature_for_another_service_is_refused() -> None:
    refuse(signed(service="sts"), errors.IncompleteSignature, "sqs/aws4_request")


def test_day_of_the_scope_must_be_that_of_the_date() -> None:
    request = signed()
    day = header(request, "x-amz-date")[:8]
    other = header(request).replace(f"/{day}/", "/20150830/")

    refuse(
        changed(request, headers={"authorization": other}),
        errors.SignatureDoesNotMatch,
        "does not match YYYYMMDD",
    )


def test_raw_semicolon_is_refused() -> None:
    url = signed("POST", headers=JSON_HEADERS, seconds=60)
    assert "%3B" in url.query

    refuse(changed(url, query=url.query.replace("%3B", ";")), errors.IncompleteSignature, "%3B")
    refuse(changed(signed(), query="a;b"), errors.IncompleteSignature, "%3B")


@pytest.mark.parametrize(
    "names",
    [
        "host;content-type;x-amz-date;x-amz-target",
        "content-type;host;host;x-amz-date;x-amz-target",
        "content-type;Host;x-amz-date;x-amz-target",
        "content-type;host;;x-amz-date;x-amz-target",
        ";content-type;host;x-amz-date;x-amz-target",
        "content-type;host;x-amz-date;x-amz-target;",
    ],
)
def test_signed_headers_must_be_sorted_lower_case_and_unique(names: str) -> None:
    request = signed()
    forged = header(request).replace("content-type;host;x-amz-date;x-amz-target", names)
    assert names in forged

    refuse(
        changed(request, headers={"authorization": forged}), errors.IncompleteSignature, "in order"
    )


def test_signed_header_that_is_missing_is_refused() -> None:
    request = signed(headers=JSON_HEADERS | {"X-Amz-Empty": ""})

    assert verify(request, KEYS, now())
    refuse(changed(request, headers={"x-amz-empty": None}), errors.SignatureDoesNotMatch, "missing")


def test_second_authorization_is_refused() -> None:
    request = signed()
    own, other = header(request), header(signed(key=SESSION))

    class Twice(dict[str, str]):
        def items(self) -> Any:
            return [*super().items(), ("authorization", other)]

    refuse(
        changed(request, headers={"authorization": f"{own},{other}"}), errors.IncompleteSignature
    )
    request.headers = Twice(request.headers.items())
    refuse(request, errors.IncompleteSignature)


@pytest.mark.parametrize(
    "more", ["X-Amz-Expires=604800", "x-amz-expires=604800", "X-Amz-Credential=x", "%58-Amz-Date=1"]
)
def test_query_parameter_of_the_signature_twice_is_refused(more: str) -> None:
    url = presigned()

    for query in (f"{url.query}&{more}", f"{more}&{url.query}"):
        refuse(changed(url, query=query), errors.IncompleteSignature, TWICE)


def test_order_of_parameters_of_one_name_cannot_be_changed() -> None:
    request = signed("POST", f"{URL}/?Action=ListQueues&Action=PurgeQueue", b"", headers={})

    refuse(request, errors.IncompleteSignature, TWICE)


@pytest.mark.parametrize("path", ["//", "/./", "/a/..", "/queue/./orders", "//queue/orders"])
def test_path_that_is_another_than_the_signed_one_is_refused(path: str) -> None:
    refuse(changed(signed(), path=path), errors.SignatureDoesNotMatch)


def test_unsigned_request_is_refused() -> None:
    refuse(changed(signed(), headers={"authorization": None}), errors.MissingAuthenticationToken)
    refuse(
        changed(presigned(), query="Action=ListQueues&Signature=x&AWSAccessKeyId=x"),
        errors.MissingAuthenticationToken,
    )


@pytest.mark.parametrize("forged", ["", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=x"])
def test_broken_authorization_is_refused(forged: str) -> None:
    refuse(changed(signed(), headers={"authorization": forged}), errors.IncompleteSignature)


def test_authorization_of_any_length_is_not_kept() -> None:
    names = ";".join(f"x-amz-{n:06}" for n in range(400))
    long = header(signed()).replace("x-amz-date;", f"{names};x-amz-date;")

    refuse(
        changed(signed(), headers={"authorization": long}), errors.IncompleteSignature, "too long"
    )


def test_unknown_key_is_refused() -> None:
    unknown = header(signed()).replace(KEY.id, "AKIAOTHEROTHEROTHER1")

    refuse(
        changed(signed(), headers={"authorization": unknown}),
        errors.InvalidClientTokenId,
        "The security token included in the request is invalid.",
    )
