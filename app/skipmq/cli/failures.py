"""The error texts and exit codes of errors that the user can correct."""

from typing import NamedTuple

from skipmq.cli.declared import DeclarationError
from skipmq.cli.remote import RemoteError
from skipmq.config import ConfigError
from skipmq.config.declarations import UnreadableError
from skipmq.database import session
from skipmq.database.embedded import EmbeddedError
from skipmq.database.router.partition_map import MapError
from skipmq.database.schema import SchemaError
from skipmq.protocol import errors, names
from skipmq.server.processes.certificate import CertificateError
from skipmq.server.processes.listening import ServeError

_USAGE, _FAILURE = 2, 1
# Their messages are meant for the user.
_PLAIN = (
    *(CertificateError, DeclarationError, EmbeddedError, MapError, RemoteError, SchemaError),
    ServeError,
)
_FAILED, _SETTINGS = "Failed", "Settings"


class Explanation(NamedTuple):
    """A line for each problem, the code of the error for programs, and the exit code."""

    problems: list[str]
    code: str = _FAILED
    exit_code: int = _FAILURE


def explain(error: Exception) -> Explanation | None:
    """Return what a command says of an error, or None for an internal one."""
    match error:
        case ConfigError():
            return Explanation(error.problems, _SETTINGS, _USAGE)
        case UnreadableError() | names.QueueNameError():
            return Explanation([str(error)], _FAILED, _USAGE)
        case RemoteError():
            return Explanation([str(error)], error.code or _FAILED)
        case session.Error():
            is_down = isinstance(error, session.Unavailable)
            code = errors.ServiceUnavailable.shape if is_down else _FAILED
            return Explanation([session.explain(error)], code)
        case errors.SqsError():
            return Explanation([_line(error)], error.shape)
    return Explanation([str(error)]) if isinstance(error, _PLAIN) else None


def _line(error: errors.SqsError) -> str:
    match error:
        case errors.DatabaseReadOnly() | errors.NeedsOperator():
            return f"{error.message} Run `skipmq doctor` for details"
        case errors.ServiceUnavailable():
            return "the database is unavailable. Check SKIPMQ_DATABASE_URL: run `skipmq doctor`"
        case errors.QueueDoesNotExist():
            return error.message
    return f"{error.code}: {error.message}"
