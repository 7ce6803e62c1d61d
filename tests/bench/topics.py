"""What a publish costs by the number of subscribers, by the processor time of node and database."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from time import monotonic
from typing import Any

from bench import peers
from bench.load import Outcome
from bench.peers import Broker
from bench.run import Measure, Run
from bench.usage import Meter
from support.http import client

BODY = "x" * 256
_SEND = "a send"


def topics(run: Run) -> None:
    """Publishes to topics with few and many subscribers, against sends to a queue."""
    run.absent = {}
    with ExitStack() as stack:
        node = stack.enter_context(peers.skipmq(run.database(stack)))
        sqs, sns = client(node.url), client(node.url, "query", service="sns")
        queue = node.queue()
        send = partial(sqs.send_message, QueueUrl=queue, MessageBody=BODY)
        measures = {_SEND: _used(node, send)}
        for number in run.form.sizes["subscribers"]:
            topic = sns.create_topic(Name=f"bench-{number}")["TopicArn"]
            for url in stack.enter_context(node.queues(number)):
                arn = "arn:aws:sqs:us-east-1:000000000000:" + url.rpartition("/")[2]
                sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
            publish = partial(sns.publish, TopicArn=topic, Message=BODY)
            measures[f"{number:,} subscribers"] = _used(node, publish)
        title = "processor time of a publish"
        run.compare(title, "µs", measures, _SEND, less_is_better=True)


def _used(node: Broker, call: Callable[[], Any]) -> Measure:
    """Return a measure of the microseconds that a call takes of node and database."""

    def measured(seconds: int) -> Outcome:
        meter, until, calls = Meter.start(node.pid, node.postmaster), monotonic() + seconds, 0
        while monotonic() < until:
            call()
            calls += 1
        used = meter.per_request(calls)
        return Outcome(used["broker_us"] + used.get("database_us", 0.0), used | {"calls": calls})

    return measured
