"""The error texts and exit codes of errors that the user can correct."""

from skipmq.cli.declared import DeclarationError
from skipmq.cli.remote import RemoteError
from skipmq.config import ConfigError
from skipmq.config.imports.found import UnreadableError
from skipmq.database import session
from skipmq.database.embedded import EmbeddedError
from skipmq.database.router import MapError
from skipmq.database.schema import SchemaError
from skipmq.protocol import errors, names
from skipmq.server.processes.certificate import CertificateError
from skipmq.server.processes.listening import ServeError

_USAGE, _FAILURE = 2, 1
# Their messages are meant for the user.
_PLAIN = (
    *(
        CertificateError,
        DeclarationError,
        EmbeddedError,
        MapError,
        RemoteError,
        SchemaError,
        ServeError,
    ),
)


def explain(error: Exception) -> tuple[list[str], int] | None:
    """Return a line for each problem and the exit code, or None for an internal error."""
    if isinstance(error, ConfigError):
        return error.problems, _USAGE
    if isinstance(error, UnreadableError | names.QueueNameError):
        return [str(error)], _USAGE
    line = str(error) if isinstance(error, _PLAIN) else _line(error)
    return None if line is None else ([line], _FAILURE)


def _line(error: Exception) -> str | None:
    match error:
        case session.Error():
            return session.explain(error)
        case errors.DatabaseReadOnly() | errors.NeedsOperator():
            return f"{error.message} Run `skipmq doctor` for details"
        case errors.ServiceUnavailable():
            return "the database is unavailable. Check SKIPMQ_DATABASE_URL: run `skipmq doctor`"
        case errors.QueueDoesNotExist():
            return error.message
        case errors.SqsError():
            return f"{error.code}: {error.message}"
    return None
