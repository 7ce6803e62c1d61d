"""The keys that authenticate receipt handles: the same at all nodes; a command replaces them."""

import structlog

from skipmq import errors
from skipmq.database import Database, Statement
from skipmq.database.wakeup import Wakeup

log = structlog.get_logger()

_KEYS = Statement("select key, age from skipmq.receipt_keys()")
_ROTATE = Statement("select from skipmq.rotate_receipt_key()", repeatable=False)
# A new key is notified at once; where that is lost it is found after POLL seconds. A node makes
# handles with it when it is KNOWN_AFTER seconds old: by then every node accepts them.
POLL, KNOWN_AFTER = 10.0, 60.0


class ReceiptKeys:
    """The keys as a node has them in memory; a task that follows their changes, for one loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # What handles are made with, and with what those that are accepted were, the newest first.
        self.current = b""
        self.accepted: tuple[bytes, ...] = ()
        self._changed = Wakeup()

    @property
    def newest(self) -> bytes:
        """Return the key that replaced all others."""
        return self.accepted[0]

    def changed(self) -> None:
        """Read the keys again at once."""
        self._changed.wake()

    async def run(self) -> None:
        """Follow the changes until it is cancelled."""
        while True:
            await self._changed.sleep(POLL)
            try:
                await self.refresh()
            except errors.ServiceUnavailable:
                pass
            except Exception:
                log.exception("receipt keys cannot be read")

    async def refresh(self) -> None:
        """Read the keys; raise errors.ServiceUnavailable."""
        found = [(bytes(key), age) for key, age in await self._database.rows(_KEYS)]
        self.accepted = tuple(key for key, _ in found)
        self.current = next((key for key, age in found if age >= KNOWN_AFTER), self.accepted[-1])

    async def rotate(self) -> None:
        """Replace the key; only the owner of the schema may."""
        await self._database.rows(_ROTATE)
