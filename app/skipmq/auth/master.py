"""Encrypts the secrets of access keys under a master key, and makes new ones."""

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
    """What a client signs with; only temporary ones have a token."""

    key_id: str
    secret: str
    token: str | None = None


class Encrypted(NamedTuple):
    """A secret as it is stored, and the id of the master key that it is encrypted under."""

    secret: bytes
    master_key_id: str


class MasterKeys:
    """Master keys of 32 bytes: the first encrypts, each decrypts what it has encrypted."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ciphers = {_id(key): AESGCM(key) for key in keys}
        self.current = _id(keys[0])

    def encrypt(self, key_id: str, secret: str) -> Encrypted:
        """Encrypt the secret of the access key of this id."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        cipher = self._ciphers[self.current]
        return Encrypted(
            nonce + cipher.encrypt(nonce, secret.encode(), key_id.encode()), self.current
        )

    def decrypt(self, key_id: str, stored: Encrypted) -> str | None:
        """Return a secret; None when no master key here has encrypted it for this access key."""
        cipher = self._ciphers.get(stored.master_key_id)
        nonce, encrypted = stored.secret[:_NONCE_BYTES], stored.secret[_NONCE_BYTES:]
        if cipher is None:
            return None
        try:
            return cipher.decrypt(nonce, encrypted, key_id.encode()).decode()
        except (InvalidTag, ValueError):
            return None


def new_credentials(*, temporary: bool = False) -> Credentials:
    """Return credentials that nobody has yet."""
    kind = TEMPORARY if temporary else PERMANENT
    key_id = kind + b32encode(secrets.token_bytes(_KEY_ID_BYTES)).decode()
    token = secrets.token_urlsafe(_TOKEN_BYTES) if temporary else None
    return Credentials(key_id, secrets.token_urlsafe(_SECRET_BYTES), token)


def _id(key: bytes) -> str:
    return sha256(b"skipmq master key" + key).digest()[:_ID_BYTES].hex()
