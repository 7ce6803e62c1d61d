"""Partitions with their numbers, and the routers that follow the map.

Source: PL/Proxy 2.10, "Cluster Configuration", SQL/MED cluster definitions.
"""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from skipmq.database import address, maintenance, pins, rights, schema
from skipmq.database.connection import LIMITS
from skipmq.database.partitions import QUEUE_BITS
from skipmq.database.router import copying, routing
from skipmq.database.router.partition_map import MESSAGE_BITS, MapError, PartitionMap, exists
from skipmq.database.session import one

# What a router's connections to partitions get: a node's, since its statements run there.
_PARAMETERS = pins.KEEPALIVE | {
    "application_name": "skipmq router",
    "connect_timeout": "2",
    # Also for the attempt to connect, for which PL/Proxy has no limit: the next server is tried.
    "tcp_user_timeout": "3000",
}


def assign(url: str, number: int, whole: PartitionMap, first: str) -> None:
    """Make a migrated database a partition, with the keys of the first one.

    The first one may have queues already. Raises MapError where it belongs to another map or has
    queues that do not fit.
    """
    with maintenance.connect(url, autocommit=False) as connection:
        schema.lock(connection)
        query = "select map_id, partitions, homes, partition from skipmq.cluster for update"
        present = PartitionMap(*one(connection, query))
        if present.map_id is not None and (present.map_id, present.homes, present.partition) != (
            whole.map_id,
            whole.homes,
            number,
        ):
            raise MapError(
                f"{address.shown(url)} is partition {present.partition} of {present.partitions} of"
                f" another map: use an empty database"
            )
        if present.map_id is not None and present.partitions > whole.partitions:
            raise MapError(
                f"{address.shown(url)} is one of {present.partitions} partitions and"
                f" {whole.partitions} are given: give all of them, in order"
            )
        unfit = connection.execute(
            "select queue_id from skipmq.generation where queue_id >> %s <> %s limit 1",
            (QUEUE_BITS, number),
        ).fetchone()
        if unfit is not None:
            raise MapError(
                f"{address.shown(url)} has queues whose numbers belong to another partition"
                f" (queue_id {unfit[0]}): use an empty database, or give it as the first partition"
            )
        if present.map_id is None:
            _number_from(connection, "skipmq.message_id_seq", number, MESSAGE_BITS)
        connection.execute(
            "update skipmq.cluster set map_id = %s, partitions = %s, homes = %s, partition = %s",
            (whole.map_id, whole.partitions, whole.homes, number),
        )
        if number:
            copying.copy_keys(first, connection)


def _number_from(
    connection: psycopg.Connection[Any], sequence: str, number: int, bits: int
) -> None:
    """Give a sequence the range of a partition; that of the first continues where it is."""
    first = (number << bits) + 1
    query = sql.SQL("alter sequence {} minvalue 1 maxvalue {}{}").format(
        sql.SQL(sequence),
        sql.Literal(((number + 1) << bits) - 1),
        sql.SQL(" restart with {}").format(sql.Literal(first)) if number else sql.SQL(""),
    )
    connection.execute(query)


def install(
    router: str, partitions: Sequence[str], whole: PartitionMap, node_password: str
) -> None:
    """Make a database the router of these partitions, in place of what it routed before.

    Run as a superuser, which alone may create functions of PL/Proxy. Nodes connect to the router
    and the router to partitions as skipmq_node. Raises MapError, psycopg.Error.
    """
    schema.check_server(schema.inspect(router))
    signatures = routing.signatures(partitions[0])
    with maintenance.connect(router, autocommit=False) as connection:
        schema.lock(connection)
        if exists(connection, "skipmq.message"):
            raise MapError(
                f"{address.shown(router)} has SkipMQ's tables: a router is a database of its own"
            )
        _extension(connection)
        connection.execute("drop schema if exists skipmq cascade")
        connection.execute("drop schema if exists skipmq_router cascade")
        connection.execute("drop server if exists skipmq cascade")
        connection.execute("create schema skipmq")
        _server(connection, partitions, node_password)
        connection.execute("create schema skipmq_router")
        owner = address.parameters(partitions[0]).get("user")
        values = (whole.partitions, whole.homes, whole.map_id, owner)
        connection.execute(_MAP.format(*map(sql.Literal, values)))
        connection.execute("set local check_function_bodies = off")
        for text in (*routing.hand_written(signatures), *routing.functions(signatures)):
            connection.execute(text.encode())
        state = schema.inspect(partitions[0])
        connection.execute(_REVISION.format(sql.Literal(state.found)))
        connection.execute(_GRANTS)
        rights.revoke_surplus(connection)


_MAP = sql.SQL(
    "create view skipmq_router.map as"
    " select {}::integer as partitions, {}::integer as homes, {}::uuid as map_id,"
    # The role of the schema's owner in the partitions, for commands; null for the command's user.
    " {}::text as owner"
)
# The revision of the partitions' schema, which nodes check when they start.
_REVISION = sql.SQL("create view skipmq.alembic_version as select {}::varchar(32) as version_num")
_GRANTS = """
revoke execute on all functions in schema skipmq, skipmq_router from public;
grant usage on schema skipmq, skipmq_router to skipmq_node;
grant execute on all functions in schema skipmq, skipmq_router to skipmq_node;
grant select on skipmq.alembic_version to skipmq_node;
-- Analytics read the partitions themselves.
grant usage on schema skipmq, skipmq_router to skipmq_reader;
grant execute on function skipmq.partition_map() to skipmq_reader;
grant select on skipmq_router.map to skipmq_node, skipmq_reader;
grant select on skipmq.alembic_version to skipmq_reader;
-- Only a role that has a mapping can connect to partitions, and it could change the mapping: it is
-- one without a login. What these functions evaluate is found without the caller's search_path.
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid from pg_proc p join pg_language l on l.oid = p.prolang
    where l.lanname = 'plproxy'
      and p.pronamespace in ('skipmq'::regnamespace, 'skipmq_router'::regnamespace)
  loop
    execute format('alter function %s owner to skipmq_router', v_function);
    execute format('alter function %s security definer set search_path = pg_catalog, pg_temp',
      v_function);
  end loop;
end $$;
"""
_ROLES = """
do $$
declare
  v_role text;
  v_login text;
begin
  for v_role, v_login in
    values ('skipmq_node', 'login'), ('skipmq_reader', 'login'), ('skipmq_router', 'nologin')
  loop
    begin
      execute format('create role %I %s', v_role, v_login);
    exception
      when duplicate_object then
        null;
    end;
  end loop;
end $$
"""


def _extension(connection: psycopg.Connection[Any]) -> None:
    try:
        connection.execute("create extension if not exists plproxy")
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        raise MapError(
            "the router's server has no extension plproxy: install its package (Debian:"
            " postgresql-15-plproxy); the embedded PostgreSQL does not have it"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise MapError("only a superuser may make a router: give --router as one") from error


def _server(
    connection: psycopg.Connection[Any], partitions: Sequence[str], node_password: str
) -> None:
    """Create the list of partitions, with the user as which the router connects to them."""
    connection.execute(_ROLES)
    if node_password:
        # Encrypted here, so that the server's log cannot have it.
        encrypted = connection.pgconn.encrypt_password(
            node_password.encode(), b"skipmq_node", b"scram-sha-256"
        ).decode()
        connection.execute(
            sql.SQL("alter role skipmq_node password {}").format(sql.Literal(encrypted))
        )
    options = [
        sql.SQL("{} {}").format(sql.Identifier(f"p{number}"), sql.Literal(_without_user(partition)))
        for number, partition in enumerate(partitions)
    ]
    connection.execute("drop foreign data wrapper if exists skipmq_partitions cascade")
    connection.execute("create foreign data wrapper skipmq_partitions")
    connection.execute(
        sql.SQL("create server skipmq foreign data wrapper skipmq_partitions options ({})").format(
            sql.SQL(", ").join([sql.SQL("modular_mapping '1'"), *options])
        )
    )
    connection.execute("grant usage on foreign server skipmq to skipmq_router")
    connection.execute(
        sql.SQL(
            "create user mapping for skipmq_router server skipmq options (user 'skipmq_node'{})"
        ).format(
            sql.SQL(", password {}").format(sql.Literal(node_password))
            if node_password
            else sql.SQL("")
        )
    )


def check_secrets(url: str) -> None:
    """Raise MapError where a partition's address has a secret other than the owner's password.

    Every login of a router can read the addresses of its partitions.
    """
    if found := address.secrets(url) - {"password"}:
        raise MapError(
            f"{address.shown(url)}: {', '.join(sorted(found))} would be stored in the router, for"
            " every login to read: use a certificate whose key needs none, or a password file"
        )


def _without_user(url: str) -> str:
    """Return the connection string of a partition for a router."""
    given = {**_PARAMETERS, **address.parameters(url)}
    given["options"] = pins.options(given.get("options", ""), LIMITS)
    if "," in given.get("host", ""):
        given["target_session_attrs"] = "read-write"
    for name in ("user", "password"):
        given.pop(name, None)
    return psycopg.conninfo.make_conninfo("", **given)
