"""Access keys with their encrypted secrets, and ended sessions of the console."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from skipmq.database.partitions import Database
from skipmq.database.statement import (
    BOOLEAN,
    BYTES,
    INTERVAL,
    JSONB,
    TEXT,
    TEXTS,
    Search,
    Statement,
    columns,
)


class StoredKey(NamedTuple):
    """An access key as it is stored; times in seconds since 1970, by the database's clock."""

    id: str
    account: str
    name: str | None
    parent: str | None
    token_digest: bytes | None
    secret: bytes
    master_key_id: str
    usable: bool
    created_at: float
    expires_at: float | None
    last_used_at: float | None
    rights: str


class RevokedKey(msgspec.Struct, rename="pascal", omit_defaults=True):
    """An access key that was revoked at a time in seconds since 1970."""

    id: Annotated[str, "key_id"] = msgspec.field(name="AccessKeyId")
    name: str
    revoked_at: Annotated[int, "round(revoked_at)::bigint"] = msgspec.field(name="RevokedTimestamp")
    revoked_by: str | None
    account: str | None = None


_ALL = Statement(f"select {columns(StoredKey, id='key_id')} from skipmq.access_keys()")
_REVOKED = Search(f"select {columns(RevokedKey)} from skipmq.revoked_access_keys($1)", TEXT)
_VERSION = Statement("select version, now from skipmq.access_key_version()")
_CREATE = Statement(
    "select from skipmq.create_access_key($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    TEXT, TEXT, TEXT, BYTES, TEXT, TEXT, BYTES, INTERVAL, JSONB, TEXT, repeatable=False,
)  # fmt: skip
_CHANGE = Statement(
    "select from skipmq.change_access_key($1, $2, $3, $4)", TEXT, BOOLEAN, INTERVAL, JSONB
)
_REVOKE = Statement("select from skipmq.revoke_access_key($1, $2)", TEXT, TEXT, repeatable=False)
_REENCRYPT = Statement(
    "select skipmq.reencrypt_access_key($1, $2, $3, $4)", TEXT, BYTES, BYTES, TEXT, repeatable=False
)
_END_SESSION = Statement("select from skipmq.end_session($1, $2)", BYTES, INTERVAL)
_ENDED_SESSIONS = Statement("select skipmq.ended_sessions()")
_NOTE_USE = Statement("select from skipmq.note_access_key_use($1)", TEXTS)


async def stored(database: Database) -> list[StoredKey]:
    """Return all keys, without those that expired long ago."""
    return [StoredKey(*row) for row in await database.rows_anywhere(_ALL)]


async def version(database: Database) -> tuple[int, float]:
    """Return a version that changes with the keys, and the time in seconds since 1970."""
    ((version, now),) = await database.rows_anywhere(_VERSION)
    return version, now


async def create(  # noqa: PLR0913 - each is a column.
    database: Database,
    key_id: str,
    *,
    account: str | None,
    name: str | None,
    secret: bytes,
    master_key_id: str,
    parent: str | None = None,
    token_digest: bytes | None = None,
    lifetime: float | None = None,
    rights: str | None = None,
    replaces: str | None = None,
) -> None:
    """Store a key, which has the name of the key that it replaces.

    Raises errors.ResourceNotFoundException if `parent` is not usable,
    errors.InvalidParameterValueException if another key has the name.
    """
    given = (key_id, account, name, secret, master_key_id, parent, token_digest, lifetime, rights)
    await database.rows(_CREATE, (*given, replaces))


async def change(
    database: Database,
    key_id: str,
    *,
    enabled: bool | None = None,
    lifetime: float | None = None,
    rights: str | None = None,
) -> None:
    """Enable or disable a key, or set its rights or its `lifetime` in seconds from now.

    Raises errors.ResourceNotFoundException.
    """
    await database.rows(_CHANGE, (key_id, enabled, lifetime, rights))


async def revoke(database: Database, key_id: str, by: str) -> None:
    """Delete a key and its temporary keys; raise errors.ResourceNotFoundException."""
    await database.rows(_REVOKE, (key_id, by))


async def revoked(database: Database, account: str | None) -> list[RevokedKey]:
    """Return the keys of an account, or of all, that were revoked, the last first."""
    return [RevokedKey(*row) for row in await database.rows_anywhere(_REVOKED, (account,))]


async def reencrypt(
    database: Database, key_id: str, old: bytes, secret: bytes, master_key_id: str
) -> bool:
    """Replace the encrypted secret if it is still `old`; return whether it was."""
    ((replaced,),) = await database.rows(_REENCRYPT, (key_id, old, secret, master_key_id))
    return bool(replaced)


async def note_use(database: Database, key_ids: Sequence[str]) -> None:
    """Set the time of last use of keys to now."""
    await database.rows_everywhere(_NOTE_USE, (key_ids,))


async def end_session(database: Database, digest: bytes, seconds: float) -> None:
    """Record that a session of the console, which had `seconds` left, was signed out."""
    await database.rows(_END_SESSION, (digest, seconds))


async def ended_sessions(database: Database) -> frozenset[bytes]:
    """Return the digests of sessions that were signed out before their end."""
    rows = await database.rows_anywhere(_ENDED_SESSIONS)
    return frozenset(bytes(digest) for (digest,) in rows)
