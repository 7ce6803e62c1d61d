"""An HTTP server that takes what topics deliver."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Event, Thread
from typing import Any, NamedTuple

from support.http import Answer, raw

WAIT = 30


class Posted(NamedTuple):
    path: str
    headers: dict[str, str]
    body: str


class Endpoint:
    """The server by its URL; what it answers next, by path, and what it was posted, by path."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.statuses: dict[str, list[int]] = {}
        self.location = ""
        self.release = Event()
        self._posted: dict[str, Queue[Posted]] = {}

    def posted(self, path: str) -> "Queue[Posted]":
        return self._posted.setdefault(path, Queue())

    def next(self, path: str) -> Posted:
        """Wait for a request."""
        return self.posted(path).get(timeout=WAIT)

    def subscribe(self, sns: Any, topic: str, path: str, **attributes: str) -> str:
        """Subscribe and confirm an address; return the ARN."""
        arn = sns.subscribe(
            TopicArn=topic,
            Protocol="http",
            Endpoint=self.url + path,
            Attributes=attributes,
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        assert self.confirm(path).status == 200
        return str(arn)

    def confirm(self, path: str) -> Answer:
        return raw(json.loads(self.next(path).body)["SubscribeURL"])


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.posted(self.path).put(Posted(self.path, headers, body))
            is_message = headers["x-amz-sns-message-type"] == "Notification"
            if is_message and self.path.startswith("/hang"):
                found.release.wait(WAIT)
            statuses = found.statuses.get(self.path) if is_message else None
            self.send_response(statuses.pop(0) if statuses else 200)
            self.send_header("Location", found.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found = Endpoint(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield found
        finally:
            found.release.set()
            server.shutdown()
            thread.join()
