"""Receipt handles, with which a consumer deletes or hides a message that it has received.

A handle has the message's row and id, the number of the receive (the fencing token) and its time,
and a keyed digest of these and the queue's ARN: it cannot be forged or used on another queue. A
server that lost committed messages assigns the numbers of their rows again, but not their ids.
"""

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class.

import msgspec

from skipmq.database.partitions import Database
from skipmq.database.statement import Statement
from skipmq.database.wakeup import Wakeup, every
from skipmq.protocol import errors

_PAYLOAD = Struct(">BqiQ16s")
_VERSION = 2
_MAC_BYTES = 12
_SEALED = Struct(f"{_PAYLOAD.format}{_MAC_BYTES}s")
_KEYS = Statement("select key, age from skipmq.receipt_keys()")
_ROTATE = Statement("select from skipmq.rotate_receipt_key()", repeatable=False)
# Nodes are notified of a new key; if the notification is lost they find it after POLL seconds. They
# sign with the key when it is SIGNS_AFTER seconds old: by then all nodes accept it.
POLL, SIGNS_AFTER = 10.0, 60.0


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """A receive of a message; `received_at` in microseconds since 1970, by the database's clock."""

    message: int
    receive_count: int
    received_at: int
    # In hexadecimal digits, with hyphens or without.
    message_id: str


class Seal:
    """The keys of a queue's handles, of which the first signs."""

    __slots__ = ("_keyed", "_queue")

    def __init__(self, keys: Iterable[bytes], queue: str) -> None:
        # A copy of a digest with the key costs less than a new one.
        self._keyed = [blake2b(digest_size=_MAC_BYTES, key=key) for key in keys]
        self._queue = queue.encode()

    def encode(self, message: int, receive_count: int, received_at: int, message_id: str) -> str:
        """Return the handle of a receive, with what its Receipt has."""
        id_ = bytes.fromhex(message_id.replace("-", ""))
        payload = _PAYLOAD.pack(_VERSION, message, receive_count, received_at, id_)
        mac = self._keyed[0].copy()
        mac.update(payload + self._queue)
        return b2a_base64(payload + mac.digest(), newline=False).decode()

    def decode(self, handle: str) -> Receipt:
        """Return the receipt in a handle.

        Raises errors.ReceiptHandleIsInvalid if it was not issued for this queue.
        """
        try:
            content = a2b_base64(handle, strict_mode=True)
            _, message, receive_count, received_at, id_, sent = _SEALED.unpack(content)
        except (ValueError, StructError):
            raise _invalid(handle) from None
        signed = content[:-_MAC_BYTES] + self._queue
        for keyed in self._keyed:
            mac = keyed.copy()
            mac.update(signed)
            if compare_digest(sent, mac.digest()):
                return Receipt(message, receive_count, received_at, id_.hex())
        raise _invalid(handle)


@lru_cache(maxsize=1024)
def seal(keys: tuple[bytes, ...], queue: str) -> Seal:
    """Return the seal of a queue (its ARN) with these keys."""
    return Seal(keys, queue)


def _invalid(handle: str) -> errors.SqsError:
    return errors.ReceiptHandleIsInvalid(
        f'The input receipt handle "{errors.shown(handle)}" is not a valid receipt handle.'
    )


class ReceiptKeys:
    """The keys of all nodes in one's memory, and the task that refreshes them; for one loop."""

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
