"""ReceiveMessage, and the form of received messages."""

from collections.abc import Callable, Sequence
from time import monotonic

import msgspec
from msgspec import structs

from skipmq.actions import access, checks
from skipmq.actions.sqs.messages import shown_number
from skipmq.broker.inspection import PeekedMessage
from skipmq.broker.messages import in_flight, receipts
from skipmq.broker.messages.message import ReceivedMessage, Reception
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import answers, errors, requests
from skipmq.protocol.answers import Message
from skipmq.protocol.call import Call
from skipmq.protocol.identity import Need
from skipmq.protocol.message import attributes_md5, body_md5
from skipmq.protocol.requests import AttributeValue
from skipmq.telemetry.logs import log

SYSTEM_ATTRIBUTES: dict[str, Callable[[ReceivedMessage | PeekedMessage], str | None]] = {
    "SenderId": lambda m: m.sender,
    "SentTimestamp": lambda m: str(m.sent_at // 1000),
    "ApproximateReceiveCount": lambda m: str(m.approximate_receive_count),
    "ApproximateFirstReceiveTimestamp": lambda m: (
        None if m.first_received_at is None else str(m.first_received_at // 1000)
    ),
    "MessageGroupId": lambda m: m.group_id,
    "AWSTraceHeader": lambda m: m.trace_header,
    "DeadLetterQueueSourceArn": lambda m: m.dead_letter_source,
    # Standard messages do not have these.
    "SequenceNumber": lambda m: (
        None if m.sequence_number is None else shown_number(m.sequence_number)
    ),
    "MessageDeduplicationId": lambda m: m.deduplication_id,
}
_NO_SLOT = "The node is at its limit of waiting receivers; try again."
_stored_attributes = msgspec.json.Decoder(dict[str, AttributeValue]).decode


async def receive_message(
    node: Node, call: Call[requests.ReceiveMessage], queue: Queue
) -> answers.ReceiveMessageResult:
    """Claim messages, and wait for the first if the call or the queue has a wait time."""
    parameters = call.parameters
    checks.receive_limit(parameters.MaxNumberOfMessages)
    checks.wait_time(parameters.WaitTimeSeconds)
    checks.visibility_timeout(parameters.VisibilityTimeout)
    system = _system_names(parameters)
    if (attempt := parameters.ReceiveRequestAttemptId) is not None:
        check = checks.identifier if queue.fifo else checks.fifo_only
        check(attempt, "ReceiveRequestAttemptId")
    receiver = _Receiver(node, call, queue)
    watch = call.request.watch_client
    unwatch = None if watch is None else watch(call.recipient.disconnect)
    consumer = node.consumers.counters(queue.id, call.identity.key_id, call.request)
    consumer.begin()
    received = 0
    try:
        reception = await (receiver.wait(queue) if receiver.seconds else receiver.claim(queue))
        received = len(reception.messages)
    finally:
        consumer.end(received)
        if unwatch is not None:
            unwatch()
    node.activity.note(queue.id, received)
    if node.tracing is not None:
        node.tracing.link(message.trace_header for message in reception.messages)
    seal = receipts.seal((node.receipt_keys.current,), queue.name.arn)
    messages = [_shown(seal, each, system, parameters) for each in reception.messages]
    if reception.held is not None:
        # The answer has the bodies now, and is encoded before anything else runs on the loop.
        reception.held.release()
    return answers.ReceiveMessageResult(Messages=messages or None)


class _Receiver:
    __slots__ = ("_call", "_name", "_node", "_recipient", "seconds")

    def __init__(self, node: Node, call: Call[requests.ReceiveMessage], queue: Queue) -> None:
        self._node, self._call, self._name = node, call, queue.name
        self._recipient = call.recipient
        self._recipient.caller = call.identity.key_id
        self._recipient.address = call.request.client
        wait = call.parameters.WaitTimeSeconds
        # The wait time in seconds.
        self.seconds = queue.attributes.receive_message_wait_time_seconds if wait is None else wait

    async def wait(self, queue: Queue) -> Reception:
        """Claim until there is a message, the wait ends, or the client disconnects.

        The first claim is skipped if the queue is known to be empty. Raises errors.Overloaded,
        after one claim, if no more receivers may wait.
        """
        node, arn, recipient = self._node, self._name.arn, self._recipient
        node.notifier.announce(arn, queue.id)
        ends = monotonic() + node.waiters.spread(self.seconds)
        with node.waiters.register(arn, recipient.caller or "") as waiter:
            recipient.on_disconnect = waiter.cancel
            if recipient.is_disconnected:
                waiter.cancel()
            reception = Reception([])
            # A repeated attempt may get the messages of the first at once.
            is_repeatable = self._call.parameters.ReceiveRequestAttemptId is not None
            claims = is_repeatable or not waiter.may_skip_poll()
            while True:
                if claims:
                    waiter.begin_poll()
                    reception = await node.queues.on(self._name, self._call.deadline, self.claim)
                    if reception.messages:
                        return reception
                    if not recipient.is_disconnected:
                        waiter.end_empty_poll(reception.next_visible_in)
                if not waiter.has_slot:
                    raise errors.Overloaded(_NO_SLOT)
                began = monotonic()
                is_due = await waiter.wait(ends)
                recipient.waited += monotonic() - began
                if not is_due:
                    return reception
                claims = True
                self._call = structs.replace(self._call, deadline=node.deadline())
                # The key may have been disabled during the wait.
                await self._check_access()

    async def _check_access(self) -> None:
        await access.check_again(self._node, self._call, Need("ReceiveMessage", self._name))

    async def claim(self, queue: Queue) -> Reception:
        """Claim messages that are visible now."""
        node, parameters, deadline = self._node, self._call.parameters, self._call.deadline
        keys = _keys_version(node)
        if queue.attributes.paused:
            return Reception([], in_flight.PAUSE)
        if not await node.in_flight.allows(queue, deadline):
            if not queue.fifo and not self.seconds:
                raise errors.OverLimit("The maximum number of messages in flight is reached.")
            return Reception([], in_flight.PAUSE)
        limit, timeout = parameters.MaxNumberOfMessages or 1, parameters.VisibilityTimeout
        attempt = parameters.ReceiveRequestAttemptId
        if attempt is None or self._recipient.is_disconnected:
            reception = await node.messages(queue).receive(
                queue, limit, timeout, deadline, self._recipient
            )
        else:
            reception = await node.fifo.receive_attempt(
                queue, attempt, limit, timeout, deadline, self._recipient
            )
        if reception.messages and (self._recipient.is_disconnected or _keys_version(node) != keys):
            reception = await self._check_again(queue, reception, keys)
        node.in_flight.received(queue, len(reception.messages))
        return reception

    async def _check_again(self, queue: Queue, reception: Reception, keys: int | None) -> Reception:
        """Return claimed messages to the queue if the caller is refused or disconnected by now.

        `keys` is the version of the keys before the claim, which may have waited for the database.
        Raises the errors of access.check_again.
        """
        node, call = self._node, self._call
        refusal: errors.SqsError | None = None
        if _keys_version(node) != keys:
            try:
                await self._check_access()
            except errors.SqsError as error:
                refusal = error
        if refusal is None and not self._recipient.is_disconnected:
            return reception
        await node.messages(queue).return_messages(queue, reception.messages, call.deadline)
        node.sent(queue, len(reception.messages))
        if refusal is not None:
            raise refusal
        return Reception([])


def _keys_version(node: Node) -> int | None:
    return 0 if node.keys is None else node.keys.version


def _system_names(parameters: requests.ReceiveMessage) -> list[str]:
    names = parameters.MessageSystemAttributeNames or parameters.AttributeNames
    if not names:
        return []
    for name in names:
        if name not in SYSTEM_ATTRIBUTES and name not in ("All", "SqsManagedSseEnabled"):
            raise checks.unknown_attribute(name)
    return [name for name in SYSTEM_ATTRIBUTES if "All" in names or name in names]


def _shown(
    seal: receipts.Seal,
    message: ReceivedMessage,
    system: list[str],
    parameters: requests.ReceiveMessage,
) -> Message:
    result = Message(
        MessageId=message.message_id,
        ReceiptHandle=seal.encode(
            message.id, message.receive_count, message.received_at, message.message_id
        ),
        MD5OfBody=body_md5(message.body),
        Body=message.body,
    )
    if system:
        values = {attribute: SYSTEM_ATTRIBUTES[attribute](message) for attribute in system}
        if present := {key: value for key, value in values.items() if value is not None}:
            result.Attributes = present
    if message.attributes and (patterns := parameters.MessageAttributeNames):
        stored = stored_attributes(message)
        chosen = {key: value for key, value in stored.items() if _matches(key, patterns)}
        if chosen:
            result.MessageAttributes = chosen
            result.MD5OfMessageAttributes = attributes_md5(chosen)
    return result


def stored_attributes(message: ReceivedMessage | PeekedMessage) -> dict[str, AttributeValue]:
    """Return the message attributes of a stored message."""
    try:
        return _stored_attributes(message.attributes or "{}")
    except msgspec.MsgspecError:
        # Written by SQL without checks; the message must not block the receive of others.
        log.warning("message attributes cannot be read", message_id=message.message_id)
        return {}


def _matches(attribute: str, patterns: Sequence[str]) -> bool:
    return any(
        pattern in ("All", ".*", "*", attribute)
        or (pattern.endswith(".*") and attribute.startswith(pattern[:-2]))
        for pattern in patterns
    )
