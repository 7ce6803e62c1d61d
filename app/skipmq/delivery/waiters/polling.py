"""The polls of one waiting receiver."""

from collections.abc import Awaitable, Callable
from time import monotonic

from skipmq import errors
from skipmq.delivery.waiters.registry import Waiters
from skipmq.model import Reception, Recipient


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

    `resume` is awaited before each claim after a sleep. The first claim is left out, unless
    `claims_first`, where the queue is known to be empty. Adds to `recipient.waited`. Raises
    errors.Overloaded, after one claim, where no more receivers may wait: those must not keep others
    from the messages that there are.
    """
    ends = monotonic() + waiters.seconds_for(seconds)
    with waiters.register(arn, owner) as waiter:
        recipient.on_disconnect = waiter.cancel
        if recipient.is_disconnected:
            waiter.cancel()
        reception = Reception([])
        claims = claims_first or not waiter.need_not_poll()
        while True:
            if claims:
                waiter.poll_begins()
                reception = await claim()
                if reception.messages:
                    return reception
                if not recipient.is_disconnected:
                    waiter.poll_found_nothing(reception.next_visible_in)
            if not waiter.has_place:
                raise errors.Overloaded("As many receivers wait as the node can take; try again.")
            began = monotonic()
            is_due = await waiter.wait(ends)
            recipient.waited += monotonic() - began
            if not is_due:
                return reception
            claims = True
            await resume()
