"""What a test does with an account of a server: clients, messages, the clock, faults."""

import http.client
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import quote, urlsplit

from skipmq.testing import draining
from skipmq.testing.clients import async_session, environment, session
from skipmq.testing.draining import Consumer
from skipmq.testing.messages import Message, Messages, TestingError

if TYPE_CHECKING:
    from skipmq.config.declarations import Found

DEFAULT_ACCOUNT = "000000000000"
DEFAULT_PLACE = (DEFAULT_ACCOUNT, "us-east-1")
# Each queue with its attributes, or the file that declares them: TOML's [queues.NAME] tables, or an
# elasticmq.conf.
Queues: TypeAlias = Mapping[str, Mapping[str, Any]] | str | Path

_SECONDS = 30
_PEEKED = 100
_TAGS = "tags"
_REDRIVE = "RedrivePolicy"


class Clock:
    """The clock of a server: visibility, delay, retention and deduplication go by it."""

    def __init__(self, control: Callable[..., Any]) -> None:
        self._control = control

    def advance(self, **duration: float) -> None:
        """Move it on, for all accounts, by what timedelta takes; return when the server does."""
        try:
            seconds = timedelta(**duration).total_seconds()
        except (OverflowError, ValueError) as error:
            raise TestingError(f"the clock cannot be moved so: {error}") from error
        self._control("MoveClock", Seconds=seconds)


class Snapshot:
    """The queues and messages of an account at a moment; at the end of a `with` they are back."""

    def __init__(self, control: Callable[..., Any]) -> None:
        self._control = control
        self._number: int | None = control("TakeSnapshot")["Snapshot"]

    def restore(self) -> None:
        """Have the account and the clock be again as they were, and end faults."""
        self._put_back()

    def _put_back(self, **more: bool) -> None:
        if self._number is None:
            raise TestingError("the snapshot is gone since the end of its `with` block")
        self._control("RestoreSnapshot", Snapshot=self._number, **more)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._put_back(IsLast=True)
        self._number = None


class Account:
    """An account of a server, in which no other account's queues are."""

    def __init__(
        self, url: str, number: str, region: str, database_url: str, queues: Queues | None = None
    ) -> None:
        self.url, self.number, self.region = url, number, region
        # With the account, in which the client's queues are that name none.
        self.database_url = _with_place(database_url, number, region)
        self.clock = Clock(self._control)
        # What programs in other processes take: `os.environ | server.env`.
        self.env = {
            "AWS_ENDPOINT_URL_SQS": url,
            "AWS_ACCESS_KEY_ID": number,
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": region,
            "AWS_REGION": region,
            "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
            "AWS_EC2_METADATA_DISABLED": "true",
            "SKIPMQ_DATABASE_URL": self.database_url,
        }
        self._queues = queues
        self._declare()

    def client(self, **options: Any) -> Any:
        """Return boto3's client of SQS; `options` are those of boto3."""
        return session().client("sqs", **self._options(options))

    def aclient(self, **options: Any) -> Any:
        """Return aiobotocore's client of SQS, to be entered by `async with`."""
        return async_session().create_client("sqs", **self._options(options))

    def _options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        own = {
            "endpoint_url": self.url,
            "region_name": self.region,
            "aws_access_key_id": self.number,
            "aws_secret_access_key": "test",
        }
        return own | dict(options)

    def environment(self) -> AbstractContextManager[None]:
        """Set `env` within a `with` block, for clients that are made in it.

        A client that was made before it and asks AWS is refused there, by a TestingError.
        """
        return environment(self.env)

    # Messages.

    def messages(self, queue: str) -> Messages:
        """Return all messages of a queue, by its name or URL; none is received, none counted."""
        shown: list[dict[str, Any]] = []
        token: str | None = None
        while True:
            page = self._extension(
                "PeekMessages", QueueUrl=self._queue(queue), MaxResults=_PEEKED, NextToken=token
            )
            shown += page["Messages"]
            if (token := page.get("NextToken")) is None:
                break
        if not queue.endswith(".fifo"):
            # Within a millisecond in the order in which they become visible.
            shown.sort(key=lambda message: int(message["Attributes"]["SentTimestamp"]))
        return Messages(Message.read(message) for message in shown)

    def drain(self, consumer: Consumer, timeout: float = 5.0) -> None:
        """Run a consumer here until all queues but dead-letter queues are empty; raise its errors.

        It is a function, a coroutine function, each called again and again, or a skipmq.App, whose
        handlers run on this server's database until the queues of its consumers are empty. Raises
        TestingError when messages are left after `timeout` seconds.
        """
        draining.drain(consumer, self._left, timeout, self.database_url)

    async def adrain(self, consumer: Consumer, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - as above.
        """Do what `drain` does on the event loop of an asynchronous test."""
        await draining.adrain(consumer, self._left, timeout, self.database_url)

    def _left(self, names: Collection[str] | None) -> list[str]:
        """Return what is left in queues, by default in all but dead-letter queues, for people."""
        found = []
        for name in self._alive() if names is None else names:
            page = self._extension("PeekMessages", QueueUrl=self._queue(name), MaxResults=_PEEKED)
            states = Counter(message["State"] for message in page["Messages"])
            found += [f"{number} {state} in {name}" for state, number in states.items()]
        return found

    def _alive(self) -> set[str]:
        """Return the names of all queues but dead-letter queues."""
        urls = self._sqs("ListQueues").get("QueueUrls", [])
        policies = [
            self._sqs("GetQueueAttributes", QueueUrl=url, AttributeNames=[_REDRIVE])
            .get("Attributes", {})
            .get(_REDRIVE, "{}")
            for url in urls
        ]
        targets = {json.loads(each).get("deadLetterTargetArn", "") for each in policies}
        return {url.rpartition("/")[2] for url in urls} - {
            arn.rpartition(":")[2] for arn in targets
        }

    # Faults.

    def fail(self, action: str, times: int = 1, code: str = "ServiceUnavailable") -> None:
        """Refuse the next requests of an action (*: of any) with an error of SQS."""
        self._fault("fail", action, times, Code=code)

    def slow(self, action: str, seconds: float, times: int = 1) -> None:
        """Delay the next requests of an action by `seconds`."""
        self._fault("slow", action, times, Seconds=seconds)

    def drop(self, action: str, times: int = 1, *, done: bool = False) -> None:
        """Close the connection of the next requests instead of an answer; `done`: after the act."""
        self._fault("drop", action, times, IsDone=done)

    def duplicate(self, times: int = 1) -> None:
        """Deliver the messages of the next receives twice, deleted or not.

        Those of a FIFO queue are visible again at once instead.
        """
        self._fault("duplicate", "ReceiveMessage", times)

    def check_faults(self) -> None:
        """Raise TestingError where there is a fault that no request has met."""
        if unmet := self._control("ListUnmetFaults")["Faults"]:
            raise TestingError(
                f"no request has met {', '.join(unmet)}: the test does not prove what it seems to"
            )

    def _fault(self, kind: str, action: str, times: int, **more: Any) -> None:
        self._control("InjectFault", Kind=kind, Action=action, Times=times, **more)

    # The rest.

    def reset(self) -> None:
        """Delete the account's queues and messages, put the clock back, end faults.

        Queues that the account was made with are there again, and empty.
        """
        self.clear()
        self._declare()

    def snapshot(self) -> Snapshot:
        """Keep the state of the account's queues and messages; its `restore()` brings it back.

        Attributes, tags, receive counts, receipt handles, delays and deduplication ids are part of
        it, and so is how far the clock is ahead. Its clock runs on meanwhile.
        """
        return Snapshot(self._control)

    def clear(self) -> None:
        """Do as reset, and leave no queue."""
        self._control("Reset")

    def _declare(self) -> None:
        if self._queues is None:
            return
        from skipmq.config.declarations import REDRIVE_POLICY, text, with_arns  # noqa: PLC0415 - by need.

        def named(attribute: str, value: Any) -> str:
            """Return an attribute as SQS has it; the queues that it names are the account's own."""
            given = with_arns(attribute, text(value), self.number, self.region)
            return given.replace(f":{DEFAULT_ACCOUNT}:", f":{self.number}:")

        queues = _read(self._queues)
        for name, given in queues.items():
            attributes = {
                key: named(key, value)
                for key, value in given.items()
                if key not in {REDRIVE_POLICY, _TAGS}
            }
            tags = {key: text(value) for key, value in given.get(_TAGS, {}).items()}
            self._sqs("CreateQueue", QueueName=name, Attributes=attributes, tags=tags)
        for name, given in queues.items():
            if REDRIVE_POLICY in given:
                attributes = {REDRIVE_POLICY: named(REDRIVE_POLICY, given[REDRIVE_POLICY])}
                self._sqs("SetQueueAttributes", QueueUrl=self._queue(name), Attributes=attributes)

    def _queue(self, name: str) -> str:
        return name if "/" in name else f"{self.url}/{self.number}/{name}"

    def _sqs(self, action: str, **parameters: Any) -> Any:
        return self._ask(f"AmazonSQS.{action}", parameters)

    def _extension(self, action: str, **parameters: Any) -> Any:
        return self._ask(f"SkipMQ.{action}", parameters)

    def _control(self, action: str, **parameters: Any) -> Any:
        return self._ask(f"SkipMQTest.{action}", parameters)

    def _ask(self, target: str, parameters: Mapping[str, Any], account: str | None = None) -> Any:
        """Return the answer to a request; raise TestingError with the text of an error."""
        scope = f"20000101/{self.region}/sqs/aws4_request"
        headers = {
            "X-Amz-Target": target,
            "X-SkipMQ-Test": "look",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={account or self.number}/{scope}",
        }
        place = urlsplit(self.url)
        assert place.hostname is not None
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=_SECONDS)
        try:
            connection.request("POST", "/", json.dumps(parameters), headers)
            response = connection.getresponse()
            answer = json.loads(response.read() or b"{}")
        except OSError as error:
            raise TestingError(f"the test server does not answer: {error}") from error
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            subject = parameters.get("QueueUrl") or parameters.get("QueueName") or "the server"
            name = target.partition(".")[2]
            where = self._elsewhere(str(subject)) if account is None else ""
            raise TestingError(f"{name} at {subject}: {answer['message']}{where}")
        return answer

    def _elsewhere(self, url: str) -> str:
        """Return what to do where a queue that is not here is in the default account."""
        other = url.replace(f"/{self.number}/", f"/{DEFAULT_ACCOUNT}/")
        if other == url:
            return ""
        try:
            self._ask("AmazonSQS.GetQueueAttributes", {"QueueUrl": other}, DEFAULT_ACCOUNT)
        except TestingError:
            return ""
        return (
            f" There is one in the account {DEFAULT_ACCOUNT}, of clients that do not have this"
            " test's variables: make them in the test, and let nothing set AWS_ACCESS_KEY_ID after"
            " `skipmq_env`"
        )


def _with_place(url: str, account: str, region: str) -> str:
    """Return a URL whose connections are in an account and region, unless they are the default."""
    settings = {"skipmq.account": account, "skipmq.region": region}
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return f"{url}&options={quote(options)}" if (account, region) != DEFAULT_PLACE else url


def _read(queues: Queues) -> Mapping[str, Mapping[str, Any]]:
    if isinstance(queues, Mapping):
        return queues
    file = Path(queues)
    if is_conf(file):
        declared = read_conf(file).queues
        return {each.name: {**each.attributes, _TAGS: each.tags} for each in declared}
    try:
        found: Mapping[str, Mapping[str, Any]] = tomllib.loads(file.read_text())["queues"]
    except KeyError:
        raise TestingError(f"{queues} declares no queues: write [queues.NAME]") from None
    except (OSError, ValueError) as error:
        raise TestingError(f"{queues} cannot be read as TOML: {error}") from error
    return found


def is_conf(queues: Queues | None) -> bool:
    """Return whether queues are declared by an elasticmq.conf."""
    return isinstance(queues, str | Path) and Path(queues).suffix != ".toml"


def read_conf(file: Path) -> "Found":
    """Return what an elasticmq.conf declares; raise TestingError."""
    # Imported by those that have one.
    elasticmq = import_module("skipmq.config.imports.elasticmq")
    try:
        found: Found = elasticmq.read(file)
    except elasticmq.UnreadableError as error:
        raise TestingError(str(error)) from error
    return found
