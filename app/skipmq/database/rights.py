"""Missing and surplus roles and rights, and the SQL with which an administrator corrects them."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from skipmq.database import files, maintenance

# The functions that roles.sql revokes from nodes, and those that it grants to applications.
_INTERNAL = re.compile(r"revoke execute on function(.*?)from skipmq_node", re.DOTALL)
_APPLICATION = re.compile(r"grant execute on function([^;]*)to skipmq_application", re.DOTALL)
# Any login of a database can hold the advisory locks that functions of the schema take.
_OFFER = """\
-- If untrusted logins share this database: allow only the owner of the schema, as which its
-- functions run, to take advisory locks. Other programs in this database that take some then fail.
-- do $$
-- declare
--   v_owner text := (select n.nspowner::regrole from pg_namespace n where n.nspname = 'skipmq');
--   v_function regprocedure;
-- begin
--   for v_function in
--     select p.oid from pg_proc p
--     where p.pronamespace = 'pg_catalog'::regnamespace and p.proname ~ '^pg_(try_)?advisory_'
--   loop
--     execute format('revoke execute on function %s from public', v_function);
--     execute format('grant execute on function %s to %s', v_function, v_owner);
--   end loop;
-- end $$;
"""
_MAY_SEE_GRANTS = "select has_table_privilege(to_regclass('skipmq.queue_grant'), 'select')"
_DANGLING = """
select
  format('role %s was dropped or renamed, and has grants of %s queues', role_name, count(*)),
  'they have no effect; `skipmq sql grant` gives them to a role that exists',
  'delete from skipmq.queue_grant where pg_get_userbyid(role) <> role_name', true
from skipmq.queue_grant where pg_get_userbyid(role) <> role_name
group by role_name order by role_name
"""
_NAME = re.compile(r"skipmq\.(\w+)\(")


@dataclass(frozen=True, slots=True)
class Finding:
    """A missing or surplus role or right, its consequence, and the statement that corrects it.

    `by_owner`: the owner's next `skipmq migrate` corrects it; otherwise only an administrator can.
    """

    what: str
    loss: str
    statement: str | None
    by_owner: bool


def missing(url: str) -> list[Finding]:
    """Return the missing roles and rights of a database, in the order in which to create them.

    Any role may call it. Raises psycopg.OperationalError when the database is unavailable.
    """
    with maintenance.connect(url) as connection:
        return _findings(connection, "missing.sql")


def surplus(url: str) -> list[Finding]:
    """Return the rights that roles have on SkipMQ's objects and that SkipMQ does not give them.

    Any role may call it; only the owner sees the grants of queues to roles that do not exist.
    Raises psycopg.OperationalError when the database is unavailable.
    """
    with maintenance.connect(url) as connection:
        return surplus_on(connection)


def revoke_surplus(connection: psycopg.Connection[Any]) -> None:
    """Revoke, in the transaction, the rights that SkipMQ does not give; skip another owner's."""
    for finding in surplus_on(connection):
        assert finding.statement is not None
        with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(finding.statement.encode())


def surplus_on(connection: psycopg.Connection[Any]) -> list[Finding]:
    """Return what `surplus` returns, on a connection that is there."""
    found = _findings(connection, "surplus.sql")
    if connection.execute(_MAY_SEE_GRANTS).fetchone() == (True,):
        found += [Finding(*row) for row in connection.execute(_DANGLING).fetchall()]
    return found


def _findings(connection: psycopg.Connection[Any], query: str) -> list[Finding]:
    granted = files.roles().read_text(encoding="utf-8")
    lists = [
        [name for found in pattern.findall(granted) for name in _NAME.findall(found)]
        for pattern in (_INTERNAL, _APPLICATION)
    ]
    with psycopg.RawCursor(connection) as cursor:
        found = cursor.execute((files.folder("sql") / query).read_bytes(), lists).fetchall()
    return [Finding(*row) for row in found]


def script(rights: Sequence[Finding]) -> str:
    """Return the SQL for an administrator: a transaction, or a comment if nothing is missing."""
    statements = [right for right in rights if not right.by_owner]
    if not statements:
        return "-- Nothing is missing that needs an administrator.\n" + _OFFER
    body = "".join(f"-- {r.what}: {r.loss}.\n{r.statement};\n" for r in statements)
    return (
        "-- For an administrator of the server; then run `skipmq migrate` again as the owner.\n"
        f"begin;\n{body}commit;\n"
        + "".join(
            f"-- {name} logs in over a network only with a password: \\password {name}\n"
            for name in ("skipmq_node", "skipmq_reader")
            if any((r.statement or "").startswith(f"create role {name} ") for r in statements)
        )
        + _OFFER
    )
