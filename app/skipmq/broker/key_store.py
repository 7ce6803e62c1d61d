"""The access keys in a node's memory, at most a second behind the database's."""

import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from time import monotonic
from time import time as own_clock  # noqa: TID251 - to compare it with the database's.
from urllib.parse import urlsplit

from skipmq.auth.keys import AccessKey, Encrypted, MasterKeys, digest, user_arn
from skipmq.auth.policy import Access, is_allowed, parse, policy_of
from skipmq.auth.sigv4 import verify
from skipmq.broker import access_keys
from skipmq.broker.access_keys import StoredKey
from skipmq.config.settings import Settings
from skipmq.database.partitions import Database
from skipmq.database.wakeup import Wakeup, every
from skipmq.protocol import errors
from skipmq.protocol.call import Request
from skipmq.protocol.identity import Identity, QueueName
from skipmq.telemetry.logs import log

# Nodes are notified of changes; if a notification is lost they find them after POLL seconds.
POLL = 1.0
# Seconds between two writes of a key's last use.
USE_NOTED = 60.0
_DECISIONS = 10_000
_DEFAULT_PORTS = {"http": 80, "https": 443}


class KeyStore:
    """The access keys of all accounts, and the task that refreshes them; for one loop.

    Authentication and authorisation use the keys in memory, and so work without the database.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        self._database = database
        self._master = MasterKeys(settings.master_keys)
        self._public_host = host_header(settings.public_url)
        self._version: int | None = None
        self._keys: dict[str, AccessKey] = {}
        # What the keys in memory were made from.
        self._sources: dict[str, StoredKey] = {}
        # The ids of all stored keys, usable or not.
        self._ids: frozenset[str] = frozenset()
        # The ARN of the user of each key, also of those that are disabled or were revoked.
        self._users: dict[str, str] = {}
        # The digests of the console's sessions that were signed out before their end.
        self._ended_sessions: frozenset[bytes] = frozenset()
        # Decisions that depend on these values alone; cleared when the keys change.
        self._decisions: dict[tuple[str | None, str, str, str], bool] = {}
        # The database's time minus time.monotonic.
        self._offset = 0.0
        self._used: set[str] = set()
        self._noted: dict[str, float] = {}
        self._changed = Wakeup()

    def identify(self, request: Request) -> Identity:
        """Return the identity that has signed a request; raise the errors of auth.verify."""
        key, region = verify(request, self._keys, self.now(), self._public_host)
        self._used.add(key.id)
        return _identity(key.account, region, key.id, key.user)

    def sign_in(self, key_id: str, secret: str, region: str) -> Identity:
        """Return the identity of a key's id and secret; raise errors.InvalidClientTokenId.

        Temporary credentials are refused, since they need their session token too.
        """
        key = self._keys.get(key_id)
        expected = key.secret if key is not None else key_id
        # Compare digests, so that the time does not depend on the length either.
        is_equal = hmac.compare_digest(digest(secret), digest(expected))
        identity = self.identity(key_id, region)
        if identity is None or not is_equal:
            raise errors.InvalidClientTokenId
        self._used.add(key_id)
        return identity

    async def all(self) -> list[StoredKey]:
        """Return all keys as they are stored; raise errors.ServiceUnavailable."""
        return await access_keys.stored(self._database)

    def is_stored(self, key_id: str) -> bool:
        """Return whether a key with this id is stored, usable or not."""
        return key_id in self._ids

    def user(self, key_id: str) -> str | None:
        """Return the ARN of the user of a key, which may be revoked; None if it has no name."""
        return self._users.get(key_id)

    @property
    def version(self) -> int | None:
        """Return a number that changes with the keys."""
        return self._version

    def check(self, key_id: str) -> None:
        """Check that a key is still usable.

        Raises errors.InvalidClientTokenId, errors.ExpiredToken.
        """
        key = self._keys.get(key_id)
        if key is None:
            raise errors.InvalidClientTokenId
        if key.expires_at is not None and self.now() >= key.expires_at:
            raise errors.ExpiredToken

    def identity(self, key_id: str, region: str) -> Identity | None:
        """Return the identity of a key, or None if it is absent, temporary or expired."""
        key = self._keys.get(key_id)
        if key is None or key.token_digest is not None:
            return None
        if key.expires_at is not None and self.now() >= key.expires_at:
            return None
        return _identity(key.account, region, key.id, key.user)

    def has_ended(self, session: bytes) -> bool:
        """Return whether a session of the console, by its digest, was signed out."""
        return session in self._ended_sessions

    async def end_session(self, session: bytes, until: float) -> None:
        """End a session of the console on all nodes; raise errors.ServiceUnavailable."""
        await access_keys.end_session(self._database, session, until - self.now())
        self._ended_sessions |= {session}

    def allows(
        self,
        identity: Identity,
        action: str,
        resource: QueueName,
        policy: str,
        context: Callable[[], dict[str, str]],
    ) -> bool:
        """Return whether a caller may use an action on a queue with this policy, or "".

        `context` returns the values of condition keys, in lower case, for policies with conditions.
        """
        question = (identity.key_id, action, resource.arn, policy)
        cached = self._decisions.get(question)
        if cached is not None:
            return cached
        key = self._keys.get(identity.key_id or "")
        try:
            queue_policy = parse(policy, of_queue=True) if policy else None
        except ValueError as error:  # It was written by SQL.
            log.warning("a queue's policy cannot be read", queue=resource.arn, reason=str(error))
            return False
        if key is None:
            return False
        is_static = key.policy.is_static and (queue_policy is None or queue_policy.is_static)
        access = Access(
            f"{resource.service}:{action}",
            resource.arn,
            key.account,
            key.user,
            {} if is_static else context() | self._context(key),
        )
        allowed = is_allowed(access, resource.account, key.policy, queue_policy)
        if is_static:
            if len(self._decisions) >= _DECISIONS:
                self._decisions.clear()
            self._decisions[question] = allowed
        return allowed

    def skew(self) -> float | None:
        """Return the seconds by which this machine's clock is ahead of the database's.

        None before the first refresh.
        """
        return own_clock() - self.now() if self._version is not None else None

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
        """Have the task read the keys at once."""
        self._changed.wake()

    async def run(self) -> None:
        """Refresh the keys at intervals and after changes until cancelled."""
        await every(POLL, self._refresh_and_note, "access keys cannot be read", self._changed)

    async def _refresh_and_note(self) -> None:
        await self.refresh()
        await self._note_use()

    async def refresh(self) -> None:
        """Read the keys if their version has changed; raise errors.ServiceUnavailable."""
        version, now = await access_keys.version(self._database)
        self._offset = now - monotonic()
        if version == self._version:
            return
        keys: dict[str, AccessKey] = {}
        sources: dict[str, StoredKey] = {}
        found = await access_keys.stored(self._database)
        for stored in found:
            source = stored._replace(last_used_at=None)
            key = self._keys.get(stored.id) if self._sources.get(stored.id) == source else None
            key = key or (self._decrypt(stored) if stored.usable else None)
            if key is not None and stored.usable:
                keys[stored.id], sources[stored.id] = key, source
        self._ids = frozenset(stored.id for stored in found)
        revoked = await access_keys.revoked(self._database, None)
        self._users = {key.id: user_arn(key.account or "", key.name) for key in revoked} | {
            key.id: user_arn(key.account, key.name) for key in found if key.name is not None
        }
        self._ended_sessions = await access_keys.ended_sessions(self._database)
        self._keys, self._sources, self._version = keys, sources, version
        self._decisions.clear()

    def _decrypt(self, stored: StoredKey) -> AccessKey | None:
        secret = self._master.decrypt(stored.id, Encrypted(stored.secret, stored.master_key_id))
        if secret is None:
            log.warning(
                "an access key is encrypted by a master key that is not in SKIPMQ_MASTER_KEY",
                key=stored.id,
                master_key=stored.master_key_id,
            )
            return None
        try:
            policy = policy_of(stored.rights, stored.account)
        except ValueError as error:  # Written by a later release or by SQL.
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
            await access_keys.note_use(self._database, due)


@lru_cache(maxsize=10_000)
def _identity(account: str, region: str, key_id: str, user: str) -> Identity:
    return Identity(account, region, account, key_id, user)


def host_header(url: str) -> str | None:
    """Return the Host header of requests to a URL, or None for an empty URL."""
    parts = urlsplit(url)
    port = _DEFAULT_PORTS.get(parts.scheme)
    return parts.netloc.removesuffix(f":{port}") or None
