"""Decrypted access keys in a node's memory."""

import hmac
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from skipmq.auth.policy import Policy
from skipmq.protocol import errors

# Signing keys cached per access key: one for each day and region, and two days around midnight.
_CACHED_SIGNERS = 8


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
