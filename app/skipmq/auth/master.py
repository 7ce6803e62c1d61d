"""Generation of access keys and encryption of their secrets under a master key."""

import secrets
from base64 import b32encode
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12
_ID_BYTES = 8
_KEY_ID_BYTES, _SECRET_BYTES, _TOKEN_BYTES = 10, 30, 48
PERMANENT, TEMPORARY = "AKIA", "ASIA"


class Credentials(NamedTuple):
    """The credentials that a client signs with; only temporary ones have a token."""

    key_id: str
    secret: str
    token: str | None = None


class Encrypted(NamedTuple):
    """An encrypted secret and the ID of the master key that encrypted it."""

    secret: bytes
    master_key_id: str


class MasterKeys:
    """Master keys of 32 bytes: the first one encrypts, all of them decrypt."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ciphers = {_id(key): AESGCM(key) for key in keys}
        self.current = _id(keys[0])

    def encrypt(self, key_id: str, secret: str) -> Encrypted:
        """Encrypt the secret of the access key with this ID."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        cipher = self._ciphers[self.current]
        return Encrypted(
            nonce + cipher.encrypt(nonce, secret.encode(), key_id.encode()), self.current
        )

    def decrypt(self, key_id: str, stored: Encrypted) -> str | None:
        """Return a secret, or None if no master key here encrypted it for this access key."""
        cipher = self._ciphers.get(stored.master_key_id)
        nonce, encrypted = stored.secret[:_NONCE_BYTES], stored.secret[_NONCE_BYTES:]
        if cipher is None:
            return None
        try:
            return cipher.decrypt(nonce, encrypted, key_id.encode()).decode()
        except (InvalidTag, ValueError):
            return None


def new_credentials(*, temporary: bool = False) -> Credentials:
    """Generate credentials."""
    kind = TEMPORARY if temporary else PERMANENT
    key_id = kind + b32encode(secrets.token_bytes(_KEY_ID_BYTES)).decode()
    token = secrets.token_urlsafe(_TOKEN_BYTES) if temporary else None
    return Credentials(key_id, secrets.token_urlsafe(_SECRET_BYTES), token)


def _id(key: bytes) -> str:
    return sha256(b"skipmq master key" + key).digest()[:_ID_BYTES].hex()
