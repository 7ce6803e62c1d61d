"""Receipt handles, with which a consumer deletes or hides a message that it has received.

A handle has the message's row and id, the number of the receive (the fencing token) and its time,
and a keyed digest of these and the queue's ARN: it cannot be forged or used on another queue. A
server that lost committed messages assigns the numbers of their rows again, but not their ids.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from struct import Struct

import msgspec

from skipmq import errors

_PAYLOAD = Struct(">BqiQ16s")
_VERSION = 2
_MAC_BYTES = 12


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """A receive of a message; `received_at` in microseconds since 1970, by the database's clock."""

    message: int
    receive_count: int
    received_at: int
    # In hexadecimal digits, with hyphens or without.
    message_id: str


def encode(receipt: Receipt, key: bytes, queue: str) -> str:
    """Return the handle of a receipt on a queue (its ARN)."""
    message_id = bytes.fromhex(receipt.message_id.replace("-", ""))
    payload = _PAYLOAD.pack(
        _VERSION, receipt.message, receipt.receive_count, receipt.received_at, message_id
    )
    return b2a_base64(payload + _mac(payload, key, queue), newline=False).decode()


def decode(handle: str, keys: Iterable[bytes], queue: str) -> Receipt:
    """Return the receipt in a handle that was signed with one of `keys`.

    Raises errors.ReceiptHandleIsInvalid if it was not issued for this queue.
    """
    try:
        content = a2b_base64(handle, strict_mode=True)
    except (Base64Error, ValueError):
        content = b""
    if len(content) == _PAYLOAD.size + _MAC_BYTES:
        payload, mac = content[: _PAYLOAD.size], content[_PAYLOAD.size :]
        for key in keys:
            if compare_digest(mac, _mac(payload, key, queue)):
                _, message, receive_count, received_at, message_id = _PAYLOAD.unpack(payload)
                return Receipt(message, receive_count, received_at, message_id.hex())
    raise errors.ReceiptHandleIsInvalid(
        f'The input receipt handle "{errors.shown(handle)}" is not a valid receipt handle.'
    )


def _mac(payload: bytes, key: bytes, queue: str) -> bytes:
    keyed = _keyed(key).copy()
    keyed.update(payload + queue.encode())
    return keyed.digest()


@lru_cache(maxsize=64)
def _keyed(key: bytes) -> blake2b:
    """Return a digest with the key, of which a copy costs less than a new one."""
    return blake2b(digest_size=_MAC_BYTES, key=key)
