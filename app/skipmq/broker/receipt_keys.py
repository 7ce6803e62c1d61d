"""The keys that authenticate receipt handles, shared by all nodes; a command rotates them."""

from skipmq.database.partitions import Database
from skipmq.database.statement import Statement
from skipmq.database.wakeup import Wakeup, every

_KEYS = Statement("select key, age from skipmq.receipt_keys()")
_ROTATE = Statement("select from skipmq.rotate_receipt_key()", repeatable=False)
# Nodes are notified of a new key; if the notification is lost they find it after POLL seconds. They
# sign with the key when it is SIGNS_AFTER seconds old: by then all nodes accept it.
POLL, SIGNS_AFTER = 10.0, 60.0


class ReceiptKeys:
    """The keys in a node's memory, and the task that refreshes them; for one loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # The key that signs new handles, and those whose handles are accepted, the newest first.
        self.current = b""
        self.accepted: tuple[bytes, ...] = ()
        self._changed = Wakeup()

    @property
    def newest(self) -> bytes:
        """Return the newest key, which may not sign yet."""
        return self.accepted[0]

    def changed(self) -> None:
        """Have the task read the keys at once."""
        self._changed.wake()

    async def run(self) -> None:
        """Refresh the keys at intervals and after changes until cancelled."""
        await every(POLL, self.refresh, "receipt keys cannot be read", self._changed)

    async def refresh(self) -> None:
        """Read the keys; raise errors.ServiceUnavailable."""
        rows = await self._database.rows_anywhere(_KEYS)
        found = [(bytes(key), age) for key, age in rows]
        self.accepted = tuple(key for key, _ in found)
        self.current = next((key for key, age in found if age >= SIGNS_AFTER), self.accepted[-1])


async def rotate(database: Database) -> None:
    """Create a new key; only the schema's owner may."""
    await database.rows(_ROTATE)
