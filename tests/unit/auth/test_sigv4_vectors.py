"""AWS's own test suite for Signature Version 4; its NOTICE says where it is from."""

import json
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pytest

from skipmq.auth.keys import signer
from skipmq.auth.sigv4 import (
    ALGORITHM,
    canonical_headers,
    canonical_query,
    canonical_request,
    headers_form,
    normalised,
    pairs_of,
    signature,
)

VECTORS = json.loads((Path(__file__).parent / "vectors" / "aws4_testsuite.json").read_text("utf-8"))
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize("name", VECTORS)
def test_vector_has_the_canonical_request_and_the_signature_of_aws(name: str) -> None:
    vector = VECTORS[name]
    head, _, body = vector["req"].partition("\n\n")
    line, *lines = head.replace("\n ", "  ").split("\n")
    method, target = line.removesuffix(" HTTP/1.1").split(" ", 1)
    path, _, query = target.partition("?")
    sent = [text.split(":", 1) for text in lines if text]
    headers = canonical_headers((header.lower(), value) for header, value in sent)
    signed = vector["authz"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    if "x-amz-security-token" in signed and "x-amz-security-token" not in headers:
        token = vector["creq"].partition("x-amz-security-token:")[2].partition("\n")[0]
        headers["x-amz-security-token"] = token

    text = canonical_request(
        method,
        quote(normalised(path), safe="/-_.~"),
        canonical_query(pairs_of(quote(query, safe="=&%-_.~"))) if query else "",
        headers_form(signed) % tuple(headers[name] for name in signed),
        sha256(body.encode()).hexdigest(),
    )
    found = signature(
        signer(SECRET, "20150830", "us-east-1", "service"),
        f"{ALGORITHM}\n20150830T123600Z\n20150830/us-east-1/service/aws4_request\n",
        text,
    )

    assert text == vector["creq"]
    assert vector["authz"].endswith(f"Signature={found}")


def test_there_are_vectors() -> None:
    assert len(VECTORS) > 30
