"""Messages, and an endpoint, whose texts would control the terminal of who runs a command."""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from support.commands import Done, invoke, run
from support.http import environment
from support.postgres import as_node

# C1, a title and colours by ESC, an override of the direction, and an isolate without an end.
HOSTILE = "\x9b2J\x1b]0;title\x07\x1b[31m\u202egnp.\u2066\x90"
# Without the controls that SQS refuses in messages.
SENT = "".join(c for c in HOSTILE if c >= " ")
ARN = "arn:aws:sqs:us-east-1:000000000000"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def url(lent: str) -> str:
    url = as_node(lent)
    run("queue", "create", "orders", database_url=url)
    reason = f"FailureReason=String:{SENT}"
    words = ("queue", "send", "orders", SENT, "-a", reason, "-a", "colour=String:x", "--group", "g")
    run(*words, database_url=url)
    return url


@pytest.mark.parametrize(
    "words",
    [
        ("peek", "orders"),
        ("search", "orders", "--body", "gnp"),
        ("receive", "orders"),
        ("list", f"ord{SENT}"),
        ("show", f"none{SENT}"),
        ("purge", f"none{SENT}", "--yes"),
    ],
    ids=lambda words: f"{words[0]} {len(words)} {words[1][:4]}",
)
def test_texts_of_messages_control_no_terminal(url: str, words: tuple[str, ...]) -> None:
    done = invoke(("queue", *words), environment({"database_url": url}) | {"COLUMNS": "200"})

    shown = done.stdout + done.stderr
    assert CONTROL.search(shown) is None
    assert shown
    if words[0] in ("peek", "search", "receive"):
        assert "]0;title" in shown


class _Hostile(BaseHTTPRequestHandler):
    """An endpoint of SQS that answers hostile texts."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        action = self.headers["x-amz-target"].partition(".")[2]
        url = f"http://localhost/000000000000/{HOSTILE}"
        answers: dict[str, Any] = {
            "ListQueues": {"QueueUrls": [url]},
            "GetQueueUrl": {"QueueUrl": url},
            "GetQueueAttributes": {
                "Attributes": {"QueueArn": f"{ARN}:{HOSTILE}", HOSTILE: HOSTILE, "Policy": HOSTILE}
            },
            "ListQueueTags": {"Tags": {HOSTILE: HOSTILE}},
        }
        fault = {"__type": f"com.amazonaws.sqs#{HOSTILE}", "message": HOSTILE}
        body = json.dumps(answers.get(action, fault)).encode()
        self.send_response(200 if action in answers else 400)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hostile) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        serving.join()


def by(endpoint: str, *words: str, **settings: Any) -> Done:
    credentials = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "x"}
    more = {"COLUMNS": "200", "AWS_REGION": "us-east-1", **credentials}
    done = invoke((*words, endpoint), environment(settings) | more)
    shown = done.stdout + done.stderr
    assert CONTROL.search(shown) is None
    assert "]0;title" in shown
    return done


@pytest.mark.parametrize("options", [("--dry-run",), ("--print",), ()])
def test_import_from_a_hostile_endpoint(hostile: str, lent: str, options: tuple[str, ...]) -> None:
    url = as_node(lent)

    by(
        hostile,
        "import",
        "--from-sqs",
        *options,
        *("--region", "us-east-1", "--endpoint-url"),
        database_url=url,
    )


@pytest.mark.parametrize(
    "words", [("list", "--names"), ("peek", "orders"), ("send", "orders", "x")]
)
def test_commands_by_a_hostile_endpoint(hostile: str, words: tuple[str, ...]) -> None:
    by(hostile, "queue", *words, "--endpoint")
