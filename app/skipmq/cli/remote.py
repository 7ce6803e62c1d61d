"""A node that is called over HTTP, with the key of AWS's variables."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from time import sleep
from typing import Any

from skipmq.cli import place
from skipmq.client import signing
from skipmq.client.errors import ClientError
from skipmq.client.http import BUSY, Caller, RefusedError, UnavailableError
from skipmq.client.outcomes import CALLS
from skipmq.config import Configuration
from skipmq.config.settings import Settings
from skipmq.protocol.extensions import REQUESTS as EXTENSIONS
from skipmq.protocol.limits import COUNTED_QUEUES, WAIT_SECONDS
from skipmq.protocol.sns.shapes import ACTIONS as TOPICS

# The longest that a node waits for messages, or for a database that fails over, and then answers.
_SECONDS = WAIT_SECONDS + 20.0
# How often a throttled call is tried again, the last time after three seconds.
_RETRIES = 6
# Actions on what is the caller's own.
_OWN = {"CreateQueue", "GetOverview", "ListQueues", "ListQueueStatistics"}
# OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED, _HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH.
_EXPIRED, _OTHER_NAME = {10}, {62, 64}


class RemoteError(Exception):
    """A call of a node over HTTP failed; the message is one line with the remedy.

    `code` is that of the error of SQS that the node answered with, if any.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class RemoteNode:
    """A node at a URL; queues are of an account, by default the key's, and of a region."""

    counted_queues = COUNTED_QUEUES

    def __init__(
        self,
        settings: Settings,
        account: str | None,
        region: str,
        seconds: float | None,
    ) -> None:
        self._account, self._region = account, region
        files = (settings.client_certificate, settings.client_key)
        try:
            self._caller = Caller(
                settings.endpoint, seconds or _SECONDS, files if files[0] else None
            )
        except ClientError as error:
            raise RemoteError(str(error)) from error

    def act(self, action: str, /, **parameters: Any) -> dict[str, Any]:
        """Run an action and return its result; raise RemoteError."""
        if action in _OWN and self._account is not None:
            raise RemoteError(
                f"{action} at {self._caller.url} is for the key's account alone: leave the account"
                f" {self._account} out"
            )
        given = {name: value for name, value in parameters.items() if value is not None}
        name = given.get("QueueUrl")
        if name is not None and "/" not in name and self._account is not None:
            given["QueueUrl"] = f"/{self._account}/{name}"
        target = f"SkipMQ.{action}" if action in EXTENSIONS else action
        if action in TOPICS:
            target = f"SNS_20100331.{action}"
        try:
            answer = self._called(target, given)
        except (ClientError, UnavailableError) as error:
            code = getattr(error, "code", "")
            if isinstance(error, UnavailableError):
                code = code or "ServiceUnavailable"
            raise RemoteError(self._explained(error, name, action), code) from error
        return answer

    def _called(self, target: str, given: dict[str, Any]) -> dict[str, Any]:
        """Call an action; retry while it is throttled, as AWS's clients do."""
        retries = 0
        while True:
            try:
                answer: dict[str, Any] = self._caller.call(target, given, self._region)
            except UnavailableError as error:
                if error.code not in BUSY or retries == _RETRIES:
                    raise
            else:
                return answer
            retries += 1
            sleep(CALLS.delay(retries))

    def queue_url(self, text: str) -> str:
        """Return the URL of a queue by its name, URL or ARN, as `place.queue_url` does."""
        return place.queue_url(text, self._account, self._region)

    def advance_tasks(self) -> None:
        """Do nothing: the node does."""

    def close(self) -> None:
        """Close the connection."""
        self._caller.close()

    def _missing(self, name: str, action: str) -> str:
        account = f"account {self._account}" if self._account else "the key's account"
        name, known = name.rsplit("/", 1)[-1], []
        # Another account's are not listed, and a key may not be allowed to list any.
        if self._account is None:
            with suppress(ClientError, UnavailableError):
                found = self._caller.call("ListQueues", {}, self._region)
                known = [url.rsplit("/", 1)[1] for url in found.get("QueueUrls", ())]
        remedy = place.remedy(name, known, action)
        conjunction = " Otherwise" if remedy.endswith("?") else ", or"
        return (
            f"queue {name} does not exist in {account}, region {self._region}, at"
            f" {self._caller.url}: {remedy}{conjunction} name its place by --account and --region"
        )

    def _explained(
        self, error: ClientError | UnavailableError, name: str | None, action: str
    ) -> str:
        if not isinstance(error, RefusedError | UnavailableError):
            return str(error)
        match error.code:
            case "":
                return _unreachable(self._caller.url, error)
            case "QueueDoesNotExist" if name is not None:
                return self._missing(name, action)
            case "MissingAuthenticationTokenException":
                remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                return f"{error.code}: {error.message.rstrip('.')}: {remedy}"
        return f"{error.code}: {error.message}"


@contextmanager
def opened(
    loaded: Configuration, given: Mapping[str, str], seconds: float | None = None
) -> Iterator[RemoteNode]:
    """Yield the node at the endpoint of the settings, for the account and region of a command.

    The account is by default the key's; the region is by default that of the settings, else of
    AWS's variables. Raises RemoteError.
    """
    settings = loaded.settings
    if "region" in given and not signing.has_key():
        raise RemoteError(
            f"a region is named by a signature alone: set AWS_ACCESS_KEY_ID and"
            f" AWS_SECRET_ACCESS_KEY, or leave the region {given['region']} out"
        )
    is_set = loaded.sources["region"] != "default"
    region = settings.region if is_set else signing.default_region()
    with closing(RemoteNode(settings, given.get("account"), region, seconds)) as node:
        yield node


def _unreachable(url: str, error: Exception) -> str:
    """Return why there is no answer, and what to do."""
    match error.__cause__:
        case ssl.SSLCertVerificationError() as cause:
            if cause.verify_code in _EXPIRED:
                remedy = "renew it"
            elif cause.verify_code in _OTHER_NAME:
                remedy = "write a host name that is in it"
            else:
                remedy = "set SSL_CERT_FILE to the PEM file of the CA that issued it"
            reason = cause.verify_message.rstrip(".")
            return f"the certificate of {url} is not valid here ({reason}): {remedy}"
        case ssl.SSLError() as cause:
            reason = (cause.reason or str(cause)).lower().replace("_", " ")
            return f"no TLS with {url} ({reason}): write http:// if the node has no certificate"
        case OSError() as cause:
            reason = cause.strerror or str(cause)
            return (
                f"{url} cannot be reached ({reason}): check the address, and that a node listens"
                " there"
            )
    return str(error)
