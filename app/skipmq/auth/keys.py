"""Access keys as nodes hold them: decrypted, in memory, by their ids."""

import hmac
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from skipmq import errors
from skipmq.auth.policy import Policy

# A client signs with the key of its day and region; a second day begins at midnight.
_SIGNERS = 8


@dataclass(slots=True)
class AccessKey:
    """A key that may sign; `expires_at` in seconds since 1970, by the database's clock.

    It is of a user, whose ARN policies name. Temporary credentials also have a session token, of
    which only the SHA-256 is known.
    """

    id: str
    account: str
    name: str
    policy: Policy
    secret: str = field(repr=False)
    token_digest: bytes | None = field(default=None, repr=False)
    expires_at: float | None = None
    user: str = field(init=False)
    _signers: dict[tuple[str, str], HMAC] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.user = f"arn:aws:iam::{self.account}:user/{self.name}"

    def signer(self, day: str, region: str) -> HMAC:
        """Return what signs the requests of a day (YYYYMMDD) in a region, to be copied."""
        found = self._signers.get((day, region))
        if found is None:
            found = signer(self.secret, day, region, "sqs")
            if len(self._signers) >= _SIGNERS:
                self._signers.clear()
            self._signers[day, region] = found
        return found

    def check(self, token: str | None, now: float) -> None:
        """Check the session token of a request, and that the key has not expired.

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
    """Return what signs with the key that a secret gives for a day, a region and a service."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return HMAC(key, SHA256())


def digest(token: str) -> bytes:
    """Return what is kept of a session token."""
    return sha256(token.encode()).digest()
