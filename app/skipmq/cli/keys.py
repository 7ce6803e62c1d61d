"""The commands that manage access keys, for the owner of the schema."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from typing import IO, Any, TypeVar

import click
from rich.markup import escape
from rich.text import Text

from skipmq.auth.keys import Credentials, Encrypted, MasterKeys, digest, new_credentials
from skipmq.auth.policy import ROLES, policy_of, rights_for
from skipmq.broker import access_keys
from skipmq.broker.access_keys import StoredKey
from skipmq.broker.messages import receipts
from skipmq.cli.environment import configuration
from skipmq.cli.key_lists import keys_list
from skipmq.cli.local import account_name, record_change, run_as_owner
from skipmq.cli.output import ask, printing_json, shown_time, yes_option
from skipmq.config import ConfigError
from skipmq.config.settings import Settings
from skipmq.database.partitions import Database
from skipmq.protocol import limits

T = TypeVar("T")
_SHOWN_ONCE = "The secret cannot be shown again."
# The session durations of AWS's GetSessionToken, in seconds.
_SESSION_SECONDS = click.IntRange(900, 129_600)
_NAME = re.compile(r"[A-Za-z0-9+=,.@_-]{1,64}")
_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]{1,80}")


def _rights_options(command: Callable[..., Any]) -> Callable[..., Any]:
    role = click.option("--role", type=click.Choice([*ROLES]), help="A predefined role.")
    queue = click.option(
        "--queue",
        "queues",
        multiple=True,
        help="A queue of the role, by name; * and ? are wildcards. [default: all queues]",
    )
    policy = click.option(
        "--policy",
        type=click.File(),
        help="A file with an AWS policy instead of a role; - reads standard input.",
    )
    return policy(queue(role(command)))


def _rights(role: str | None, queues: Sequence[str], policy: IO[str] | None) -> str | None:
    """Return the stored form of the rights, or None without options."""
    if policy is None:
        for queue in queues:
            if not _PATTERN.fullmatch(queue):
                problem = (
                    "use the queue's name, not its ARN or URL"
                    if {":", "/"} & {*queue}
                    else f"{queue} is no name of a queue: those have letters a to z, digits, - and"
                    " _; * and ? are wildcards"
                )
                raise click.BadParameter(problem, param_hint="--queue")
        return rights_for(role or "admin", queues) if role or queues else None
    if role or queues:
        raise click.UsageError("--policy cannot be combined with --role or --queue")
    document = policy.read()
    try:
        policy_of(document, limits.DEFAULT_ACCOUNT)
    except ValueError as error:
        raise click.ClickException(f"{policy.name}: {error}") from error
    return document


@click.group()
def keys_command() -> None:
    """Create, list, permit, disable, enable, revoke and rotate access keys.

    Run these commands as the owner of the schema, with the master key of the nodes.
    """


keys_command.add_command(keys_list)


def _run(
    operation: Callable[[Database], Awaitable[T]],
    settings: Settings | None = None,
    *,
    create: bool = False,
) -> T:
    """Run an operation on the stored keys as the schema's owner, behind a router in each partition.

    Keys are the same in all partitions: the operation stores what it was given.
    """
    return run_as_owner("keys", operation, settings, create=create, everywhere=True)


def _master(settings: Settings) -> MasterKeys:
    if not settings.master_key:
        raise ConfigError(
            [
                "SKIPMQ_MASTER_KEY is required for keys: create one with `openssl rand -base64 32`,"
                " the same for all nodes"
            ]
        )
    return MasterKeys(settings.master_keys)


@keys_command.command("create")
@click.option("--account", help="Account of 12 digits (default: SKIPMQ_ACCOUNT).")
@click.option("--name", help="The user name in policies.  [default: the ID of the key]")
@_rights_options
@printing_json
def keys_create(
    account: str | None,
    name: str | None,
    role: str | None,
    queues: Sequence[str],
    policy: IO[str] | None,
) -> tuple[Any, Any]:
    """Create an access key and show its secret.

    Without a role or a policy it has all rights in its account.
    """
    settings = configuration().settings
    account = account or settings.account
    if not limits.ACCOUNT.fullmatch(account):
        raise click.BadParameter("an account has 12 digits", param_hint="--account")
    if name is not None and not _NAME.fullmatch(name):
        raise click.BadParameter(
            "a name has 1 to 64 letters, digits and + = , . @ _ -", param_hint="--name"
        )
    rights = _rights(role, queues, policy)
    master, new = _master(settings), new_credentials()
    encrypted = master.encrypt(new.key_id, new.secret)

    async def create(database: Database) -> None:
        await _store(database, new, encrypted, account=account, name=name, rights=rights)

    _run(create, settings, create=True)
    given = rights or rights_for("admin")
    _note("CreateAccessKey", account, new.key_id, name or new.key_id, Rights=json.loads(given))
    return _shown(new, {"account": account})


@keys_command.command("permit")
@click.argument("key_id")
@_rights_options
@printing_json
def keys_permit(
    key_id: str, role: str | None, queues: Sequence[str], policy: IO[str] | None
) -> tuple[Any, Any]:
    """Replace the rights of KEY_ID."""
    rights = _rights(role, queues, policy)
    if rights is None:
        raise click.UsageError("specify a --role, optionally with --queue, or a --policy")

    async def permit(database: Database) -> StoredKey:
        key = await _find(database, key_id)
        if key.parent is not None:
            raise click.ClickException(f"{key_id} is temporary and has the rights of its key")
        await access_keys.change(database, key_id, rights=rights)
        return key

    key = _run(permit)
    before, after = json.loads(key.rights), json.loads(rights)
    _note("PermitAccessKey", key.account, key_id, key.name, Rights=after, Before=before)
    return {"permitted": key_id}, f"access key {escape(key_id)} has new rights"


@keys_command.command("rotate")
@click.argument("key_id")
@click.option(
    "--overlap",
    type=click.IntRange(0, 31_536_000),
    default=86_400,
    show_default=True,
    help="Seconds until the old key expires.",
)
@printing_json
def keys_rotate(key_id: str, overlap: int) -> tuple[Any, Any]:
    """Create a replacement for KEY_ID, which expires after the overlap."""
    new = new_credentials()
    encrypted = _master(configuration().settings).encrypt(new.key_id, new.secret)

    async def rotate(database: Database) -> StoredKey:
        old = await _find(database, key_id)
        if old.parent is not None or not old.usable:
            raise click.ClickException(f"{key_id} is temporary or disabled: create another")
        columns = {"account": old.account, "name": old.name, "rights": old.rights}
        await _store(database, new, encrypted, **columns, replaces=key_id)
        await access_keys.change(database, key_id, lifetime=overlap)
        return old

    old = _run(rotate)
    _note("RotateAccessKey", old.account, key_id, old.name, NewKeyId=new.key_id, Seconds=overlap)
    return _shown(new, {"account": old.account, "replaces": key_id})


@keys_command.command("session")
@click.argument("key_id")
@click.option("--seconds", type=_SESSION_SECONDS, default=3600, show_default=True)
@printing_json
def keys_session(key_id: str, seconds: int) -> tuple[Any, Any]:
    """Create temporary credentials of KEY_ID."""
    settings = configuration().settings
    master, new = _master(settings), new_credentials(temporary=True)
    encrypted = master.encrypt(new.key_id, new.secret)

    async def create(database: Database) -> StoredKey:
        token = {"token_digest": digest(new.token or ""), "lifetime": seconds}
        await _store(database, new, encrypted, account=None, name=None, parent=key_id, **token)
        return await _find(database, new.key_id)

    stored = _run(create, settings)
    _note("CreateSession", stored.account, key_id, stored.name, NewKeyId=new.key_id)
    more = {
        "session_token": new.token,
        "account": stored.account,
        "expires": shown_time(stored.expires_at),
    }
    return _shown(new, more)


@keys_command.command("disable")
@click.argument("key_id")
@printing_json
def keys_disable(key_id: str) -> tuple[Any, Any]:
    """Disable KEY_ID and its temporary credentials."""
    _enable(key_id, enabled=False)
    return {"disabled": key_id}, f"access key {escape(key_id)} is disabled"


@keys_command.command("enable")
@click.argument("key_id")
@printing_json
def keys_enable(key_id: str) -> tuple[Any, Any]:
    """Enable KEY_ID and its temporary credentials."""
    _enable(key_id, enabled=True)
    return {"enabled": key_id}, f"access key {escape(key_id)} is enabled"


def _enable(key_id: str, *, enabled: bool) -> None:
    async def change(database: Database) -> StoredKey:
        key = await _find(database, key_id)
        await access_keys.change(database, key_id, enabled=enabled)
        return key

    key = _run(change)
    action = "EnableAccessKey" if enabled else "DisableAccessKey"
    _note(action, key.account, key_id, key.name)


def _note(action: str, account: str, key_id: str, name: str | None, **more: Any) -> None:
    record_change("keys", action, account, {"AccessKeyId": key_id, "Name": name, **more})


@keys_command.command("revoke")
@click.argument("key_id")
@yes_option
@printing_json
def keys_revoke(key_id: str, *, yes: bool) -> tuple[Any, Any]:
    """Permanently delete KEY_ID and its temporary credentials."""
    if not yes:
        key = _known(_run(partial(_look_up, key_id=key_id)), key_id)
        named = f" ({key.name})" if key.name not in (None, key_id) else ""
        ask(
            f"Permanently delete access key {key_id}{named} of account {key.account}?",
            "nothing was revoked",
        )

    async def revoke(database: Database) -> StoredKey | None:
        # An earlier run may have revoked it in some partitions only.
        key = await _look_up(database, key_id)
        if key is not None:
            await access_keys.revoke(database, key_id, account_name())
        return key

    key = _known(_run(revoke), key_id)
    _note("RevokeAccessKey", key.account, key_id, key.name)
    return {"revoked": key_id}, f"access key {escape(key_id)} is revoked"


@keys_command.command("rotate-master")
@printing_json
def keys_rotate_master() -> tuple[Any, Any]:
    """Encrypt all secrets under the first of the keys in SKIPMQ_MASTER_KEY.

    Put the new key before the old one, restart the nodes, run this, and then remove the old key.
    """
    settings = configuration().settings
    master = _master(settings)
    # Of each key once, for all partitions.
    encrypt = cache(master.encrypt)

    async def reencrypt(database: Database) -> tuple[int, list[str]]:
        done, foreign = 0, []
        for key in await access_keys.stored(database):
            if key.master_key_id == master.current:
                continue
            secret = master.decrypt(key.id, Encrypted(key.secret, key.master_key_id))
            if secret is None:
                foreign.append(key.id)
                continue
            new = encrypt(key.id, secret)
            done += await access_keys.reencrypt(
                database, key.id, key.secret, new.secret, new.master_key_id
            )
        return done, foreign

    done, foreign = _run(reencrypt, settings)
    if foreign:
        raise click.ClickException(
            f"{done} re-encrypted; SKIPMQ_MASTER_KEY lacks the master key of {', '.join(foreign)}"
        )
    record_change("keys", "RotateMasterKey", None, {"Reencrypted": done})
    return {"reencrypted": done, "master_key": master.current}, f"{done} secrets re-encrypted"


@keys_command.command("rotate-receipts")
@printing_json
def keys_rotate_receipts() -> tuple[Any, Any]:
    """Replace the key that authenticates receipt handles, which backups of the database contain.

    Nodes reload it without a restart. Existing handles stay valid for 12 hours; sessions of the
    console end.
    """
    run_as_owner("keys", receipts.rotate)
    record_change("keys", "RotateReceiptKey", None, {})
    return {"rotated": True}, "rotated the receipt key; existing handles are valid for 12 hours"


async def _store(
    database: Database, new: Credentials, encrypted: Encrypted, **columns: Any
) -> None:
    await access_keys.create(database, new.key_id, **encrypted._asdict(), **columns)


async def _find(database: Database, key_id: str) -> StoredKey:
    return _known(await _look_up(database, key_id), key_id)


async def _look_up(database: Database, key_id: str) -> StoredKey | None:
    return next((key for key in await access_keys.stored(database) if key.id == key_id), None)


def _known(key: StoredKey | None, key_id: str) -> StoredKey:
    if key is None:
        raise click.ClickException(f"access key {key_id} does not exist")
    return key


def _shown(new: Credentials, more: dict[str, Any]) -> tuple[Any, Any]:
    result = {"access_key_id": new.key_id, "secret_access_key": new.secret, **more}
    lines = [f"{name.replace('_', ' '):18} {value}" for name, value in result.items()]
    return result, Text("\n".join([*lines, _SHOWN_ONCE]))
