"""Access keys: made, encrypted under a master key, and decrypted in a node's memory."""

import hmac
import secrets
from base64 import b32encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from skipmq.auth.policy import Policy
from skipmq.protocol import errors

# Signing keys cached per access key: one for each day and region, and two days around midnight.
_CACHED_SIGNERS = 8
_NONCE_BYTES = 12
_ID_BYTES = 8
_KEY_ID_BYTES, _SECRET_BYTES, _TOKEN_BYTES = 10, 30, 48
PERMANENT, TEMPORARY = "AKIA", "ASIA"


@dataclass(slots=True)
class AccessKey:
    """An access key of a user; policies name the user by its ARN.

    `expires_at` is in seconds since 1970 by the database's clock. Of the session token of temporary
    credentials only the SHA-256 is stored.
    """

    id: str
    account: str
    name: str
    policy: Policy
    secret: str = field(repr=False)
    token_digest: bytes | None = field(default=None, repr=False)
    expires_at: float | None = None
    user: str = field(init=False)
    _signers: dict[tuple[str, str, str], HMAC] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.user = user_arn(self.account, self.name)

    def signer(self, day: str, region: str, service: str) -> HMAC:
        """Return the HMAC for requests of a day (YYYYMMDD) in a region; copy it before use."""
        cached = self._signers.get((day, region, service))
        if cached is None:
            cached = signer(self.secret, day, region, service)
            if len(self._signers) >= _CACHED_SIGNERS:
                self._signers.clear()
            self._signers[day, region, service] = cached
        return cached

    def check(self, token: str | None, now: float) -> None:
        """Check the session token of a request and that the key has not expired.

        Raises errors.InvalidClientTokenId, errors.ExpiredToken.
        """
        if self.token_digest is None:
            if token is not None:
                raise errors.InvalidClientTokenId
        elif token is None or not hmac.compare_digest(digest(token), self.token_digest):
            raise errors.InvalidClientTokenId
        if self.expires_at is not None and now >= self.expires_at:
            raise errors.ExpiredToken


def signer(secret: str, day: str, region: str, service: str) -> HMAC:
    """Return the HMAC keyed with the signing key of a secret for a day, region and service."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return HMAC(key, SHA256())


def digest(token: str) -> bytes:
    """Return the SHA-256 that is stored of a session token."""
    return sha256(token.encode()).digest()


def user_arn(account: str, name: str) -> str:
    """Return the ARN of the user that has a key of this name."""
    return f"arn:aws:iam::{account}:user/{name}"


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
