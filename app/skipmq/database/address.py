"""Parse, check and mask database addresses, given as libpq URLs or key-value strings.

libpq's error messages quote an address that it cannot parse, password included. Where an unescaped
@ or / in a password shifts the parts, libpq quotes the password as a host or a port.
"""

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from skipmq.config import ConfigError, Configuration

_SETTINGS = ("database_url", "analytics_url")
# libpq marks what a form should not show.
_SECRET = {option.keyword.decode() for option in Conninfo.get_defaults() if option.dispchar == b"*"}
# What a password is derived to, which serves as well.
_SECRET |= {"scram_client_key", "scram_server_key"}
_PORT = re.compile("[0-9]{0,5}")
_LAST_PORT = 65_535
_ADVICE = (
    "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with every character of the password that"
    " is neither a letter nor a digit percent-encoded (%40 for @)"
)


class AddressError(ConfigError):
    """An address that cannot be parsed; the message names the fault without quoting the address."""

    def __init__(self, reason: str, name: str = "the database's URL") -> None:
        self.reason = reason
        super().__init__([f"{name}: {reason}: {_ADVICE}"])


def parameters(address: str) -> dict[str, str]:
    """Return the connection parameters in an address; raise AddressError."""
    try:
        found = conninfo_to_dict(address)
    except (psycopg.ProgrammingError, UnicodeError):
        raise AddressError("libpq cannot read it") from None
    given = {key: str(value) for key, value in found.items() if value is not None}
    if "\0" in address:
        raise AddressError("it has a zero byte")
    if not all(_is_port(port) for port in given.get("port", "").split(",")):
        raise AddressError("its port is not a number from 1 to 65535")
    shown = [value for key, value in given.items() if key not in _SECRET]
    if any("@" in given.get(key, "")[1:] for key in ("host", "dbname")) or any(
        re.search(r"password\s*=", value) for value in shown
    ):
        raise AddressError("part of its password would be parsed as another parameter")
    return given


def secrets(address: str) -> set[str]:
    """Return the names of the parameters in an address that are secret; raise AddressError."""
    return parameters(address).keys() & _SECRET


def _is_port(text: str) -> bool:
    return bool(_PORT.fullmatch(text)) and 1 <= int(text or 1) <= _LAST_PORT


def checked(found: Configuration) -> Configuration:
    """Return the configuration if all its database addresses parse; raise ConfigError."""
    problems = []
    for name in _SETTINGS:
        source = found.sources[name]
        try:
            parameters(getattr(found.settings, name))
        except AddressError as error:
            origin = source if source.startswith("SKIPMQ_") else f"{source}: {name}"
            problems += AddressError(error.reason, origin).problems
    if problems:
        raise ConfigError(problems)
    return found


def shown(address: str) -> str:
    """Return an address with *** for every secret in it; raise AddressError."""
    given = parameters(address)
    return make_conninfo("", **{key: "***" if key in _SECRET else given[key] for key in given})
