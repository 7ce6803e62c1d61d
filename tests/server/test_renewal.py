"""Certificates that are renewed while clients send."""

import os
import signal
from collections.abc import Callable

import pytest

from support.certificates import Files, shown
from support.http import client, eventually
from support.senders import Senders

RENEWALS = 2


@pytest.mark.parametrize("workers", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_certificate_is_renewed_and_no_request_is_lost(
    node_url: str, files: Files, workers: int
) -> None:
    with files.node(node_url, workers=workers) as node:
        before = sorted(worker.pid for worker in node.workers())
        sqs = client(f"https://localhost:{node.port}", ca=files.ca)
        for name in ("orders", "empty"):
            queue = sqs.create_queue(QueueName=name)["QueueUrl"]
        senders = Senders(node.port, files.context(), queue.replace("empty", "orders"))
        with senders.sending():
            for _ in range(RENEWALS):
                senders.go_on()
                number = files.put(files.issue())
                eventually(
                    lambda number=number: all(  # By whichever worker.
                        shown(node.port, files.context()) == number for _ in range(8)
                    ),
                    why=node.log,
                )
                senders.go_on()
        assert sorted(worker.pid for worker in node.workers()) == before
        counted = sqs.get_queue_attributes(
            QueueUrl=queue.replace("empty", "orders"),
            AttributeNames=["ApproximateNumberOfMessages"],
        )["Attributes"]["ApproximateNumberOfMessages"]

        assert node.stop() == 0

    assert senders.errors == []
    assert int(counted) == len(senders.sent)
    assert node.log.count("renewed the certificate") == RENEWALS


@pytest.mark.parametrize("spoil", [pytest.param(Files.cut, marks=pytest.mark.slow), Files.mix])
def test_broken_renewal_leaves_the_certificate_that_there_is(
    node_url: str, files: Files, spoil: Callable[[Files], None]
) -> None:
    with files.node(node_url, workers=2) as node:
        before = {each.pid for each in node.workers()}
        number = shown(node.port, files.context())
        renewed = files.put(files.issue())
        spoil(files)

        eventually(lambda: "keeping the old certificate" in node.log)
        assert shown(node.port, files.context()) == number
        # A worker that is started now has nothing but what was good before.
        for each in before:
            os.kill(each, signal.SIGKILL)
        eventually(lambda: len({each.pid for each in node.workers()} - before) == 2)
        node.ready()
        assert shown(node.port, files.context()) == number

        renewed = files.put(files.issue())
        eventually(lambda: all(shown(node.port, files.context()) == renewed for _ in range(8)))

    assert node.log.count("keeping the old certificate") == 1
