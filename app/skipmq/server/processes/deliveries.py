"""Deliver to addresses that are subscribed to topics; each node does, and none leads."""

import asyncio
from collections import Counter
from urllib.parse import urlsplit

from skipmq.broker import deliveries
from skipmq.broker.deliveries import Delivery
from skipmq.config.settings import LOOPBACK, Settings
from skipmq.database.pool import Pool
from skipmq.database.wakeup import Wakeup
from skipmq.protocol import errors
from skipmq.server.processes.post import RefusedAddressError, Resolver, post
from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import Observer

# Requests at a time of a node; and of a subscription, which has at most twice as many.
CONCURRENT, CLAIMED_EACH = 64, 4
# Seconds until what nodes were killed with is looked for.
_INTERVAL = 15.0
_SUCCESS, _SERVER_ERROR = range(200, 300), 500


class Deliveries:
    """The deliveries of a database or a partition; for one loop."""

    def __init__(self, database: Pool, settings: Settings, observer: Observer) -> None:
        self._database, self._observer = database, observer
        self._allowed = None if settings.host in LOOPBACK else settings.delivery_allowed
        self._wakeup = Wakeup()
        self._resolver = Resolver()
        self._busy: Counter[str] = Counter()

    def wake(self) -> None:
        """Look for what is due."""
        self._wakeup.wake()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                found: list[Delivery] = []
                try:
                    found = await self._claim()
                except errors.ServiceUnavailable:
                    pass
                except Exception:
                    log.exception("cannot claim deliveries")
                for each in found:
                    self._busy[each.subscription_id] += 1
                    group.create_task(self._deliver(each))
                    if each.throttle is not None:
                        asyncio.get_running_loop().call_later(1 / each.throttle, self.wake)
                await self._wakeup.sleep(_INTERVAL)

    async def _claim(self) -> list[Delivery]:
        free = CONCURRENT - self._busy.total()
        if free <= 0:
            return []
        busy = [each for each, under_way in self._busy.items() if under_way > CLAIMED_EACH]
        return await deliveries.claim(self._database, free, CLAIMED_EACH, busy)

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await self._attempt(delivery)
        except errors.ServiceUnavailable:
            pass  # The claim ends by itself.
        except Exception:
            log.exception("a delivery failed", subscription=delivery.arn)
        finally:
            self._busy[delivery.subscription_id] -= 1
            self._busy += Counter()  # Forgets those without any.
            self.wake()

    async def _attempt(self, delivery: Delivery) -> None:
        status, again, reason = 0, True, ""
        try:
            body = delivery.body.encode()
            status = await post(
                delivery.endpoint, delivery.headers, body, self._allowed, self._resolver
            )
            again, reason = status >= _SERVER_ERROR, f"status {status}"
        except RefusedAddressError:
            again, reason = False, "the address is not public: see SKIPMQ_DELIVERY_NETWORKS"
        except TimeoutError:
            reason = "no answer in time"
        except (OSError, ValueError) as error:
            reason = type(error).__name__
        is_delivered = status in _SUCCESS
        outcome = await deliveries.settle(
            self._database, delivery, delivered=is_delivered, again=again
        )
        if is_delivered:
            return
        log.warning(
            "an address did not take a message",
            subscription=delivery.arn,
            host=urlsplit(delivery.endpoint).hostname,
            reason=reason,
            outcome=outcome,
        )
        if outcome == "deferred":
            asyncio.get_running_loop().call_later(delivery.delay or 0, self.wake)
        elif outcome is not None:
            self._observer.count("undelivered", (outcome,), 1)
