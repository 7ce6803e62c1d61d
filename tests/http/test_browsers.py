"""A node that checks no signatures does nothing that a page of another site asks for."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.http import NodeProcess, WsgiProcess, client, raw
from support.postgres import as_node

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
REFUSED = "AccessDenied"


@pytest.fixture(scope="module")
def named(request: pytest.FixtureRequest, broker: NodeProcess) -> Iterator[NodeProcess]:
    """Give a node that has been given names, and a public URL."""
    door = WsgiProcess if request.config.getoption("door") == "wsgi" else NodeProcess
    names = {"allowed_hosts": "skipmq, queues.internal", "public_url": "https://sqs.example.com"}
    with door(database_url=as_node(broker.owner_url), workers=1, **names) as process:
        yield process.ready()


def exists(sqs: Any, name: str) -> bool:
    return bool(sqs.list_queues(QueueNamePrefix=name).get("QueueUrls"))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "https://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "strange"},
        {"Host": "attacker.example"},
        {"Host": "localhost.attacker.example:9324"},
        {"Host": "127.0.0.1.attacker.example"},
        {"Host": "attacker.example", "Origin": "http://attacker.example"},
        {"Host": "attacker.example", "Sec-Fetch-Site": "same-origin"},
        {"Host": "skipmq:9324"},
    ],
)
def test_page_of_another_site_changes_nothing(
    broker: NodeProcess, sqs: Any, queue: str, name: str, headers: dict[str, str]
) -> None:
    body = urlencode({"Action": "DeleteQueue", "QueueUrl": queue})

    answer = raw(f"{broker.url}/", body.encode(), FORM | headers)

    assert (answer.status, REFUSED in answer.body) == (403, True)
    answer = raw(f"{broker.url}/?Action=ListQueues", None, headers)
    assert (answer.status, name in answer.body) == (403, False)
    assert exists(sqs, name)


def test_link_and_image_change_nothing(
    broker: NodeProcess, sqs: Any, queue: str, name: str
) -> None:
    for action in ("DeleteQueue", "PurgeQueue", "ReceiveMessage"):
        answer = raw(f"{broker.url}/?{urlencode({'Action': action, 'QueueUrl': queue})}")
        assert (answer.status, REFUSED in answer.body) == (403, True)

    assert exists(sqs, name)
    assert name in raw(f"{broker.url}/?Action=ListQueues&QueueNamePrefix={name}").body
    answer = raw(f"{broker.url}/?{urlencode({'Action': 'GetQueueAttributes', 'QueueUrl': queue})}")
    assert answer.status == 200


def signed(node: NodeProcess, where: str, **parameters: str) -> tuple[str, dict[str, str]]:
    """Return the URL and the headers of a GET that an SDK's signer has signed."""
    request = AWSRequest("GET", f"{node.url}/", params=parameters)
    signer = {"header": SigV4Auth, "query": SigV4QueryAuth}[where]
    signer(Credentials("test", "test"), "sqs", "us-east-1").add_auth(request)
    prepared = request.prepare()
    return prepared.url, {name: str(value) for name, value in prepared.headers.items()}


@pytest.mark.parametrize("where", ["header", "query"])
def test_signed_get_changes_something(
    broker: NodeProcess, sqs: Any, queue: str, where: str
) -> None:
    url, headers = signed(
        broker, where, Action="SendMessage", QueueUrl=queue, MessageBody="by a signed GET"
    )

    answer = raw(url, None, headers)

    assert answer.status == 200, answer.body
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == "by a signed GET"


@pytest.mark.parametrize(
    "shown",
    [
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-User": "?1"},
        {"Referer": "https://attacker.example/"},
        {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0 Safari/537.36"},
    ],
    ids=lambda shown: next(iter(shown)),
)
def test_presigned_url_in_a_browser_changes_nothing(
    broker: NodeProcess, sqs: Any, queue: str, name: str, shown: dict[str, str]
) -> None:
    url, headers = signed(broker, "query", Action="DeleteQueue", QueueUrl=queue)
    own = {"Sec-Fetch-Site": "same-origin", "Origin": broker.url}

    assert raw(url, None, headers | shown).status == 403
    assert raw(url, None, headers | own).status == 403
    assert exists(sqs, name)


@pytest.mark.parametrize("value", ["", "Basic dXNlcjpwYXNz", "Bearer AWS4-HMAC-SHA256"])
def test_get_with_another_authorization_changes_nothing(
    broker: NodeProcess, sqs: Any, queue: str, name: str, value: str
) -> None:
    """A browser sends Basic by itself, from the user info of a link."""
    url = f"{broker.url}/?{urlencode({'Action': 'DeleteQueue', 'QueueUrl': queue})}"

    assert raw(url, None, {"Authorization": value}).status == 403
    assert exists(sqs, name)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost:9324"},
        {"Host": "LOCALHOST"},
        {"Host": "[::1]:9324"},
        {"Host": "192.0.2.7:80"},
        {"Host": "sqs.localhost:9324"},
        {"Host": "host.docker.internal:9324"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Host": "localhost:9324", "Origin": "http://localhost:9324"},
    ],
)
def test_clients_and_own_pages_are_served(
    broker: NodeProcess, queue: str, headers: dict[str, str]
) -> None:
    body = urlencode({"Action": "SendMessage", "QueueUrl": queue, "MessageBody": "x"})

    answer = raw(f"{broker.url}/", body.encode(), FORM | headers)

    assert answer.status == 200, answer.body


def test_names_that_were_given_are_served(named: NodeProcess, name: str) -> None:
    for host in ("skipmq:9324", "queues.internal", "sqs.example.com"):
        answer = raw(f"{named.url}/?Action=ListQueues", None, {"Host": host})
        assert answer.status == 200, host
    answer = raw(f"{named.url}/?Action=ListQueues", None, {"Host": "attacker.example"})
    assert (answer.status, "SKIPMQ_ALLOWED_HOSTS" in answer.body) == (403, True)
    assert client(named.url).create_queue(QueueName=name)["QueueUrl"]


def test_health_has_the_names_of_the_node(broker: NodeProcess) -> None:
    """Balancers and probes ask by address."""
    for host, status in (("attacker.example", 403), ("10.1.2.3:9324", 200), ("[::1]", 200)):
        assert raw(f"{broker.url}/health/live", None, {"Host": host}).status == status
