"""The polls of a waiting receiver."""

from collections.abc import Awaitable, Callable
from time import monotonic

from skipmq.broker.messages.message import Reception
from skipmq.broker.messages.waiters.registry import Waiters
from skipmq.protocol import errors
from skipmq.protocol.call import Recipient


async def poll_until(  # noqa: PLR0913, PLR0917 - private to ReceiveMessage.
    waiters: Waiters,
    arn: str,
    owner: str,
    seconds: int,
    recipient: Recipient,
    claim: Callable[[], Awaitable[Reception]],
    resume: Callable[[], Awaitable[None]],
    *,
    claims_first: bool,
) -> Reception:
    """Claim until there is a message, for up to `seconds`, or until the client disconnects.

    `resume` is awaited before each claim after a sleep. If the queue is known to be empty the first
    claim is skipped, unless `claims_first`. Adds to `recipient.waited`. Raises errors.Overloaded,
    after one claim, if no more receivers may wait.
    """
    ends = monotonic() + waiters.spread(seconds)
    with waiters.register(arn, owner) as waiter:
        recipient.on_disconnect = waiter.cancel
        if recipient.is_disconnected:
            waiter.cancel()
        reception = Reception([])
        claims = claims_first or not waiter.may_skip_poll()
        while True:
            if claims:
                waiter.begin_poll()
                reception = await claim()
                if reception.messages:
                    return reception
                if not recipient.is_disconnected:
                    waiter.end_empty_poll(reception.next_visible_in)
            if not waiter.has_slot:
                raise errors.Overloaded("The node is at its limit of waiting receivers; try again.")
            began = monotonic()
            is_due = await waiter.wait(ends)
            recipient.waited += monotonic() - began
            if not is_due:
                return reception
            claims = True
            await resume()
