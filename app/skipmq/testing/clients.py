"""The clients of tests, and the variables by which clients of the tested code find the server."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from skipmq.testing.messages import TestingError

# AWS's endpoints of SQS, the older ones and those of VPCs and dual stack among them.
_AWS = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu", ".api.aws")


@cache
def session() -> Any:
    """Return a session of boto3 that no tested code has."""
    try:
        boto3 = import_module("boto3")
    except ImportError as error:
        raise TestingError("client needs boto3: pip install 'skipmq[testing]'") from error
    return boto3.session.Session()


def async_session() -> Any:
    """Return a session of aiobotocore."""
    try:
        aiobotocore = import_module("aiobotocore.session")
    except ImportError as error:
        raise TestingError("aclient needs aiobotocore: pip install aiobotocore") from error
    return aiobotocore.get_session()


@contextmanager
def environment(env: Mapping[str, str]) -> Iterator[None]:
    """Set the variables of clients within a `with` block, in which none asks AWS."""
    variables = os.environ  # noqa: TID251 - what SDKs read.
    names = [*env, "AWS_SESSION_TOKEN"]
    before = {name: variables.pop(name) for name in names if name in variables}
    variables.update(env)
    default = _replace_default_session(None)
    try:
        with _refusing_aws(env["AWS_ENDPOINT_URL_SQS"]):
            yield
    finally:
        for name in names:
            variables.pop(name, None)
        variables.update(before)
        _replace_default_session(default)


@contextmanager
def _refusing_aws(url: str) -> Iterator[None]:
    """Have clients that were made before, with an endpoint of AWS, send it nothing."""
    endpoint = getattr(sys.modules.get("botocore.endpoint"), "Endpoint", None)
    if endpoint is None:
        yield
        return
    make = endpoint.make_request
    endpoint.make_request = _refusing(make, url)
    try:
        yield
    finally:
        endpoint.make_request = make


def _refusing(make: Callable[..., Any], url: str) -> Callable[..., Any]:
    """Return make_request of endpoints, aiobotocore's too, before which nothing is signed."""

    def refusing(self: Any, operation: Any, request: Any) -> Any:
        host = urlsplit(request["url"]).hostname or ""
        if host.endswith(_AWS) and operation.service_model.service_name == "sqs":
            raise TestingError(
                f"a client asks AWS itself, {host}, and nothing was sent: it was made before the"
                f" test. Make it within, or with endpoint_url={url!r}"
            )
        return make(self, operation, request)

    return refusing


def _replace_default_session(new: Any) -> Any:
    """Replace the session of boto3, which keeps the credentials of its first client."""
    boto3: Any = sys.modules.get("boto3")
    if boto3 is None:
        return None
    before, boto3.DEFAULT_SESSION = boto3.DEFAULT_SESSION, new
    return before
