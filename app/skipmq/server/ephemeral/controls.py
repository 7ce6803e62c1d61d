"""What tests may ask of a temporary server: faults, another time, another state of an account.

Requests on the JSON wire under a target of their own, `SkipMQTest.` and a name. Only the worker of
`skipmq serve --ephemeral` makes this broker; no setting does. Any other node has a Broker, which
knows nothing of these targets.
"""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from skipmq.actions.dispatch import EVERY, perform
from skipmq.auth.credentials import identify
from skipmq.broker.node import Node
from skipmq.protocol import codec, errors, requests
from skipmq.protocol.call import Call, Request, Response
from skipmq.protocol.identity import Identity
from skipmq.server.answer import Broker, ConnectionDropped
from skipmq.server.ephemeral.owner import Ephemeral

_PREFIX = "SkipMQTest."
# The bounds of what a test may ask for: how far the clock is ahead, and how late an answer is, in
# seconds; the requests that a fault meets; and the faults of an account.
_AHEAD_SECONDS, _LATE_SECONDS = 10 * 365 * 86_400.0, 3_600.0
_TIMES, _FAULTS = 1_000_000, 1_000
# Of requests by which a test looks at queues: no fault is meant for them.
_LOOK = "x-skipmq-test"
_ANY = "*"
_MESSAGE_ID = re.compile("<MessageId>([^<]+)<")
_RECEIPT = re.compile("<ReceiptHandle>([^<]+)<")
_JSON = [("content-type", "application/x-amz-json-1.0")]
_ERRORS = {
    name: error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, errors.SqsError)
    for name in (error.shape, error.code)
    if error is not errors.SqsError
}


class InjectFault(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A fault of the next `Times` requests of an action (*: of any)."""

    Action: str
    Kind: Literal["fail", "slow", "drop", "duplicate"]
    Times: int = 1
    # Of the error that is answered.
    Code: str = "ServiceUnavailable"
    # By which an answer is late.
    Seconds: float = 0.0
    # Whether what a dropped connection asked for has been done.
    IsDone: bool = False


class ListUnmetFaults(msgspec.Struct, forbid_unknown_fields=True):
    """The faults of the caller's account that no request has met, for people."""


class MoveClock(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """By how many seconds the database's clock is moved on."""

    Seconds: float


class TakeSnapshot(msgspec.Struct, forbid_unknown_fields=True):
    """The state of the queues and messages of the caller's account is kept."""


class RestoreSnapshot(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The account and the clock are as they were when the snapshot was taken; its faults end."""

    Snapshot: int
    # Whether it is deleted then.
    IsLast: bool = False


class Reset(msgspec.Struct, forbid_unknown_fields=True):
    """The caller's account is emptied, the clock put back; faults of the account end."""


@dataclass(slots=True)
class Fault:
    """A fault, and how many requests it is still for."""

    given: InjectFault
    left: int

    @property
    def is_met(self) -> bool:
        """Whether a request has met it."""
        return self.left < self.given.Times


class ControlledBroker(Broker):
    """The broker of a temporary server that tests control; for one loop."""

    def __init__(self, node: Node, owner_url: str) -> None:
        super().__init__(node)
        self._database = Ephemeral(owner_url, node.database, node.settings.connections)
        # By account, in the order in which they were asked for.
        self._faults: dict[str, list[Fault]] = {}

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request, or what a fault makes of it."""
        target = request.headers.get("x-amz-target") or ""
        if target.startswith(_PREFIX):
            return await self._control(request, target.removeprefix(_PREFIX))
        is_spared = not self._faults or request.headers.get(_LOOK) is not None
        fault = None if is_spared else self._fault_for(request)
        if fault is None:
            return await super().answer(request)
        given = fault.given
        if given.Kind == "fail":
            return codec.encode_error(request, _ERRORS[given.Code]())
        if given.Kind == "slow":
            await asyncio.sleep(given.Seconds)
        elif given.Kind == "drop" and not given.IsDone:
            raise ConnectionDropped
        response = await super().answer(request)
        if given.Kind == "drop":
            raise ConnectionDropped
        if given.Kind == "duplicate" and not await self._duplicate(request, response):
            fault.left += 1  # There was no message.
        return response

    async def _control(self, request: Request, name: str) -> Response:
        try:
            self.check_browser(request)
            self.node.check_open()
            result = await self._run(name, request)
        except msgspec.DecodeError as error:
            return codec.encode_error(request, errors.SerializationException(str(error)))
        except errors.SqsError as error:
            return codec.encode_error(request, error)
        return Response(200, _JSON, msgspec.json.encode(result))

    async def _run(self, name: str, request: Request) -> dict[str, Any]:
        account = self._identity(request).account
        if name == "InjectFault":
            self._add(msgspec.json.decode(request.body, type=InjectFault), account)
        elif name == "ListUnmetFaults":
            msgspec.json.decode(request.body, type=ListUnmetFaults)
            faults = [each.given for each in self._faults.get(account, []) if not each.is_met]
            return {"Faults": [f"{each.Kind} of {each.Action}" for each in faults]}
        elif name == "MoveClock":
            seconds = msgspec.json.decode(request.body, type=MoveClock).Seconds
            if seconds < 0:
                raise errors.InvalidParameterValueException("The clock only moves on.")
            if not await self._database.advance(seconds, _AHEAD_SECONDS):
                raise errors.InvalidParameterValueException(
                    f"The clock can be at most {_AHEAD_SECONDS:.0f} seconds ahead, and is"
                    f" {self._database.offset:.0f} seconds ahead: move it less, or put it back"
                    " (Reset)."
                )
            self.node.waiters.wake_all()
        elif name == "TakeSnapshot":
            msgspec.json.decode(request.body, type=TakeSnapshot)
            await self.node.activity.flush()
            snapshots = self._database.snapshots
            return {"Snapshot": await snapshots.take(account, self._database.offset)}
        elif name == "RestoreSnapshot":
            await self._restore(msgspec.json.decode(request.body, type=RestoreSnapshot), account)
        elif name == "Reset":
            msgspec.json.decode(request.body, type=Reset)
            self._faults.pop(account, None)
            await self._database.put_back()
            await self._database.delete_queues(account)
            self._forget()
        else:
            raise errors.UnknownOperationException
        return {"ClockOffset": self._database.offset}

    async def _restore(self, wanted: RestoreSnapshot, account: str) -> None:
        snapshots, number = self._database.snapshots, wanted.Snapshot
        offset = snapshots.offset(account, number)
        if offset is None:
            text = f"There is no snapshot {number} of this account."
            raise errors.InvalidParameterValueException(text)
        self._faults.pop(account, None)
        await self.node.activity.flush()
        await self._database.put_back(offset)
        await snapshots.restore(account, number)
        if wanted.IsLast:
            await snapshots.drop(account, number)
        self._forget()

    def _forget(self) -> None:
        """Have the node look at the database again."""
        self.node.queues.forget(None)
        self.node.topics.forget(None)
        self.node.standard.forget_scans()
        self.node.in_flight.forget()
        self.node.waiters.wake_all()

    def _add(self, fault: InjectFault, account: str) -> None:
        if fault.Action not in (*EVERY, _ANY):
            raise errors.InvalidParameterValueException(f"There is no action {fault.Action}.")
        if fault.Kind == "duplicate" and fault.Action != "ReceiveMessage":
            raise errors.InvalidParameterValueException("Only ReceiveMessage duplicates messages.")
        if fault.Code not in _ERRORS:
            known = ", ".join(sorted(_ERRORS))
            raise errors.InvalidParameterValueException(f"There is no error {fault.Code}: {known}.")
        for name, value, least, most in (
            ("Times", fault.Times, 1, _TIMES),
            ("Seconds", fault.Seconds, 0, _LATE_SECONDS),
        ):
            if not least <= value <= most:
                raise errors.InvalidParameterValueException(
                    f"{name} is {value:g}, and must be between {least} and {most:.0f}."
                )
        faults = [each for each in self._faults.get(account, []) if each.left > 0]
        if len(faults) >= _FAULTS:
            raise errors.InvalidParameterValueException(
                f"This account has {_FAULTS} faults that no request has met: end them (Reset)."
            )
        self._faults[account] = [*faults, Fault(fault, fault.Times)]

    def _identity(self, request: Request) -> Identity:
        authorization = request.headers.get("authorization")
        settings = self.node.settings
        return identify(authorization, request.query, settings.region, settings.account)

    def _fault_for(self, request: Request) -> Fault | None:
        """Return the first fault for a request, and count it."""
        faults = self._faults.get(self._identity(request).account, [])
        try:
            action = codec.decode(request).action
        except errors.SqsError:
            return None
        for fault in faults:
            if fault.left > 0 and fault.given.Action in (action, _ANY):
                fault.left -= 1
                return fault
        return None

    async def _duplicate(self, request: Request, response: Response) -> bool:
        """Have the messages of an answer be received again; return whether there were any.

        Of a standard queue's there is another copy from now on. That of a FIFO queue, which has
        none twice, is visible at once, as after its visibility timeout.
        """
        if response.status != 200:  # noqa: PLR2004 - HTTP's.
            return False
        if request.is_json:
            found = msgspec.json.decode(response.body).get("Messages", [])
            received = [(message["MessageId"], message["ReceiptHandle"]) for message in found]
        else:
            body = response.body.decode()
            pairs = zip(_MESSAGE_ID.findall(body), _RECEIPT.findall(body), strict=True)
            received = list(pairs)
        url = codec.decode(request).parameters.QueueUrl
        if not url.endswith(".fifo"):
            name, account = url.rpartition("/")[2], self._identity(request).account
            await self._database.copy_messages(account, name, [each for each, _ in received])
            self.node.waiters.wake_all()
            return bool(received)
        for _, receipt in received:
            shown = requests.ChangeMessageVisibility(
                QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0
            )
            identity, deadline = self._identity(request), self.node.deadline()
            call = Call("ChangeMessageVisibility", shown, request, identity, deadline)
            with suppress(errors.SqsError):
                await perform(self.node, call)
        return bool(received)
