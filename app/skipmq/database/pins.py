"""The settings of this project's own sessions, whatever a role, a database or the environment sets.

The caller's sessions keep theirs: what is read there depends on none of these.
"""

from collections.abc import Mapping
from typing import Any

from psycopg.pq import Conninfo

# Notice within some ten seconds that a server is gone without closing the connection.
KEEPALIVE = {
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# Instead of the limits that a role or a database has; the options in a URL may set others.
UNLIMITED = {
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "lock_timeout": "0",
    "statement_timeout": "0",
}
# Not default_transaction_read_only, which services set while a disk is full: writes must fail then.
# A session without a superuser's rights could not set lc_messages or session_replication_role.
_PINS = {
    "array_nulls": "on",
    "bytea_output": "hex",
    "datestyle": "ISO,MDY",
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": "read committed",
    "extra_float_digits": "1",
    "intervalstyle": "postgres",
    "quote_all_identifiers": "off",
    "row_security": "on",
    "search_path": "public,pg_temp",
    "standard_conforming_strings": "on",
    "timezone": "UTC",
    "transform_null_equals": "off",
}
# The first version with transaction_timeout; earlier ones refuse an option of that name.
TRANSACTION_TIMEOUT = 170_000
# In the session alone that was opened, not in one that a pooler gives to others too.
LIFT_TRANSACTION_TIMEOUT = (
    "select set_config('transaction_timeout', '0', false) where pg_backend_pid() = %s"
)


def pinned(given: Mapping[str, Any], limits: Mapping[str, str] = UNLIMITED) -> dict[str, Any]:
    """Return the connection parameters of a session with these settings, from those of a URL.

    Without options it has those of PGOPTIONS, as libpq has.
    """
    own = given["options"] if "options" in given else _from_environment()
    return {**given, "client_encoding": "UTF8", "options": options(own, limits)}


def options(given: str = "", limits: Mapping[str, str] = UNLIMITED) -> str:
    """Return libpq's options: the limits, those given, which may change them, and the pins."""
    parts = (_written(limits), given.strip(), _written(_PINS))
    return " ".join(part for part in parts if part)


def settings(limits: Mapping[str, str] = UNLIMITED) -> tuple[list[str], list[str]]:
    """Return the names of the limits and the pins, and their values."""
    every = {**limits, **_PINS}
    return [*every], [*every.values()]


def is_refused(error: Exception) -> bool:
    """Return whether a pooler refuses options, as PgBouncer does."""
    return "unsupported startup parameter" in str(error)


def _written(settings: Mapping[str, str]) -> str:
    escaped = {name: value.replace(" ", r"\ ") for name, value in settings.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items())


def _from_environment() -> str:
    found = next(o for o in Conninfo.get_defaults() if o.keyword == b"options")
    return (found.val or b"").decode()
