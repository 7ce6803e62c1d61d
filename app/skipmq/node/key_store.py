"""The access keys of a node: in memory, and as the database has them within a second."""

import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from time import monotonic
from time import time as own_clock  # noqa: TID251 - to compare it with the database's.
from typing import TypeAlias
from urllib.parse import urlsplit

import structlog

from skipmq import errors
from skipmq.auth import (
    Access,
    AccessKey,
    Encrypted,
    MasterKeys,
    is_allowed,
    parse,
    policy_of,
    verify,
)
from skipmq.auth.keys import digest
from skipmq.auth.sigv4 import SignedRequest
from skipmq.database import Database
from skipmq.database.wakeup import Wakeup
from skipmq.model import Identity, QueueName, StoredKey
from skipmq.settings import Settings
from skipmq.store.access_keys import AccessKeys

log = structlog.get_logger()

# A change is notified at once; where that is lost the keys are looked at after so many seconds.
POLL = 1.0
USE_NOTED = 60.0
_DECISIONS = 10_000
_DEFAULT_PORTS = {"http": 80, "https": 443}

# What a key in memory was made of.
_Source: TypeAlias = tuple[bytes, str, str, bytes | None, float | None, str, str | None]


class KeyStore:
    """Tells who has signed a request and may do what; a task that follows the changes of the keys.

    Nobody who signs waits for the database, and whoever was let in before is so while it is away.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        self._stored = AccessKeys(database)
        self._master = MasterKeys(settings.master_keys)
        self._public_host = host_of(settings.public_url)
        self._version = -1
        self._keys: dict[str, AccessKey] = {}
        self._sources: dict[str, _Source] = {}
        # Of all that are stored, in use or not.
        self._ids: frozenset[str] = frozenset()
        # Of the console, signed out of before their time was over.
        self._ended_sessions: frozenset[bytes] = frozenset()
        # Answers that depend on nothing else, for as long as the keys are the same.
        self._decisions: dict[tuple[str | None, str, str, str], bool] = {}
        # What is added to time.monotonic to get the database's time.
        self._offset = 0.0
        self._used: set[str] = set()
        self._noted: dict[str, float] = {}
        self._changed = Wakeup()

    def identify(self, request: SignedRequest) -> Identity:
        """Return who has signed a request; raise the errors of auth.verify."""
        key, region = verify(request, self._keys, self.now(), self._public_host)
        self._used.add(key.id)
        return _identity(key.account, region, key.id, key.user)

    def sign_in(self, key_id: str, secret: str, region: str) -> Identity:
        """Return whom a key's id and secret are of; raise errors.InvalidClientTokenId.

        Temporary credentials are nobody's here: they prove nothing without their token.
        """
        key = self._keys.get(key_id)
        expected = key.secret if key is not None else key_id
        # Of digests, so that the time says nothing of the length either.
        is_equal = hmac.compare_digest(digest(secret), digest(expected))
        identity = self.identity(key_id, region)
        if identity is None or not is_equal:
            raise errors.InvalidClientTokenId
        self._used.add(key_id)
        return identity

    def is_stored(self, key_id: str) -> bool:
        """Tell whether there is a key of that id, in use or not."""
        return key_id in self._ids

    @property
    def version(self) -> int:
        """Return a number that is another one after the keys have changed."""
        return self._version

    def check(self, key_id: str) -> None:
        """Check that a key, which has signed a request, is still in use.

        Raises errors.InvalidClientTokenId, errors.ExpiredToken.
        """
        key = self._keys.get(key_id)
        if key is None:
            raise errors.InvalidClientTokenId
        if key.expires_at is not None and self.now() >= key.expires_at:
            raise errors.ExpiredToken

    def identity(self, key_id: str, region: str) -> Identity | None:
        """Return whom a key is of, or None when it is not there, is temporary, or has expired."""
        key = self._keys.get(key_id)
        if key is None or key.token_digest is not None:
            return None
        if key.expires_at is not None and self.now() >= key.expires_at:
            return None
        return _identity(key.account, region, key.id, key.user)

    def has_ended(self, session: bytes) -> bool:
        """Tell whether a session of the console, by its digest, was signed out of."""
        return session in self._ended_sessions

    async def end_session(self, session: bytes, until: float) -> None:
        """End a session, here and elsewhere; raise errors.ServiceUnavailable."""
        await self._stored.end_session(session, until - self.now())
        self._ended_sessions |= {session}

    def allows(
        self,
        identity: Identity,
        action: str,
        resource: QueueName,
        policy: str,
        context: Callable[[], dict[str, str]],
    ) -> bool:
        """Tell whether a caller may do something with a queue that has a policy or none.

        `context` gives condition keys in lower case with their values, where a policy asks.
        """
        asked = (identity.key_id, action, resource.arn, policy)
        known = self._decisions.get(asked)
        if known is not None:
            return known
        key = self._keys.get(identity.key_id or "")
        try:
            theirs = parse(policy, of_queue=True) if policy else None
        except ValueError as error:  # It was written by SQL.
            log.warning("a queue's policy cannot be read", queue=resource.arn, reason=str(error))
            return False
        if key is None:
            return False
        is_static = key.policy.is_static and (theirs is None or theirs.is_static)
        access = Access(
            f"sqs:{action}",
            resource.arn,
            key.account,
            key.user,
            {} if is_static else context() | self._context(key),
        )
        allowed = is_allowed(access, resource.account, key.policy, theirs)
        if is_static:
            if len(self._decisions) >= _DECISIONS:
                self._decisions.clear()
            self._decisions[asked] = allowed
        return allowed

    def skew(self) -> float | None:
        """Return by how many seconds the clock of this machine is ahead of the database's.

        None while the database has not been asked.
        """
        return own_clock() - self.now() if self._version >= 0 else None

    def _context(self, key: AccessKey) -> dict[str, str]:
        now = self.now()
        return {
            "aws:currenttime": datetime.fromtimestamp(now, UTC).isoformat(),
            "aws:epochtime": str(int(now)),
            "aws:principalaccount": key.account,
            "aws:principalarn": key.user,
            "aws:username": key.name,
        }

    def now(self) -> float:
        """Return the database's time, in seconds since 1970."""
        return monotonic() + self._offset

    def changed(self) -> None:
        """Read the keys again at once."""
        self._changed.wake()

    async def run(self) -> None:
        """Follow the changes until it is cancelled."""
        while True:
            await self._changed.sleep(POLL)
            try:
                await self.refresh()
                await self._note_use()
            except errors.ServiceUnavailable:
                pass
            except Exception:
                log.exception("access keys cannot be read")

    async def refresh(self) -> None:
        """Read the keys if they have changed; raise errors.ServiceUnavailable."""
        version, now = await self._stored.version()
        self._offset = now - monotonic()
        if version == self._version:
            return
        keys: dict[str, AccessKey] = {}
        sources: dict[str, _Source] = {}
        found = await self._stored.all()
        for stored in found:
            source = (
                stored.secret,
                stored.master_key_id,
                stored.account,
                stored.token_digest,
                stored.expires_at,
                stored.rights,
                stored.name,
            )
            key = self._keys.get(stored.id) if self._sources.get(stored.id) == source else None
            key = key or (self._decrypted(stored) if stored.usable else None)
            if key is not None and stored.usable:
                keys[stored.id], sources[stored.id] = key, source
        self._ids = frozenset(stored.id for stored in found)
        self._ended_sessions = await self._stored.ended_sessions()
        self._keys, self._sources, self._version = keys, sources, version
        self._decisions.clear()

    def _decrypted(self, stored: StoredKey) -> AccessKey | None:
        secret = self._master.decrypt(stored.id, Encrypted(stored.secret, stored.master_key_id))
        if secret is None:
            log.warning(
                "an access key is of another master key than SKIPMQ_MASTER_KEY has",
                key=stored.id,
                master_key=stored.master_key_id,
            )
            return None
        try:
            policy = policy_of(stored.rights, stored.account)
        except ValueError as error:  # Of a later version, or written by SQL.
            log.warning("the rights of an access key are unknown", key=stored.id, reason=str(error))
            return None
        return AccessKey(
            stored.id,
            stored.account,
            stored.name or stored.id,
            policy,
            secret,
            stored.token_digest,
            stored.expires_at,
        )

    async def _note_use(self) -> None:
        now = monotonic()
        due = [key for key in self._used if now - self._noted.get(key, -USE_NOTED) >= USE_NOTED]
        self._used.clear()
        if due:
            self._noted = {key: at for key, at in self._noted.items() if now - at < USE_NOTED}
            self._noted |= dict.fromkeys(due, now)
            await self._stored.note_use(due)


@lru_cache(maxsize=10_000)
def _identity(account: str, region: str, key_id: str, user: str) -> Identity:
    return Identity(account, region, account, key_id, user)


def host_of(url: str) -> str | None:
    """Return the Host of requests to a URL; None when it is empty."""
    parts = urlsplit(url)
    port = _DEFAULT_PORTS.get(parts.scheme)
    return parts.netloc.removesuffix(f":{port}") or None
