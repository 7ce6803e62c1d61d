"""A producer and a consumer of each of some queues, that know what was acknowledged."""

import threading
from collections import Counter
from itertools import count
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from support.http import client

_PAUSE = 0.1


class Traffic:
    """Sends and receives on queues until it is stopped.

    Each producer pauses between sends, so that the test's own processes get on; a message is hidden
    for `visibility` seconds.
    """

    def __init__(self, endpoint: str, urls: list[str], visibility: int = 5) -> None:
        self.endpoint, self.urls, self._visibility = endpoint, urls, visibility
        self.sent: dict[str, list[str]] = {url: [] for url in urls}
        # In order of their first receive.
        self.received: dict[str, Counter[str]] = {url: Counter() for url in urls}
        self.errors: dict[str, list[Exception]] = {url: [] for url in urls}
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=target, args=(client(endpoint), url), daemon=True)
            for url in urls
            for target in (self._produce, self._consume)
        ]
        for thread in self._threads:
            thread.start()

    def _produce(self, sqs: Any, url: str) -> None:
        for number in count():
            if self._stopped.wait(_PAUSE):
                return
            body = str(number)
            fifo = {"MessageGroupId": "g", "MessageDeduplicationId": body}
            try:
                sqs.send_message(
                    QueueUrl=url, MessageBody=body, **(fifo if url.endswith(".fifo") else {})
                )
            except (ClientError, BotoCoreError) as error:
                self.errors[url].append(error)
            else:
                self.sent[url].append(body)

    def _consume(self, sqs: Any, url: str) -> None:
        while not self._stopped.is_set():
            self.consume(sqs, url)

    def consume(self, sqs: Any, url: str) -> None:
        """Receive and delete once."""
        try:
            answer = sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=10,
                VisibilityTimeout=self._visibility,
                WaitTimeSeconds=1,
            )
            for message in answer.get("Messages", []):
                self.received[url][message["Body"]] += 1
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        except (ClientError, BotoCoreError) as error:
            self.errors[url].append(error)

    def stop(self) -> None:
        """End the threads after their requests."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def lost(self, url: str) -> set[str]:
        """Return what was acknowledged and not received."""
        return set(self.sent[url]) - set(self.received[url])
