"""Settings: `SKIPMQ_*` variables over one TOML file over defaults; all errors at once."""

import os
import sys
import tomllib
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from skipmq.model import DeclaredQueue

PREFIX = "SKIPMQ_"
LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_ABOUT, _ONE_OF_US = "about", frozenset({"SKIPMQ_CONFIG"})
# Settings that are secret, or hold a password: SKIPMQ_X_FILE names a file with SKIPMQ_X in it.
SECRETS = ("database_url", "analytics_url", "master_key")
# Where systemd's LoadCredential= puts it.
_CREDENTIAL = "skipmq-master-key"
_MASTER_KEY_BYTES = 32

Seconds = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(ge=0)]


class ConfigError(Exception):
    """Settings that cannot be used; `problems` has one line for each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def _setting(default: Any, about: str, *, secret: bool = False) -> Any:
    return field(default=default, metadata={_ABOUT: about}, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of a node; the variable of `x` is SKIPMQ_X, its key in the TOML file `x`."""

    database_url: str = _setting(
        "", "PostgreSQL 15-18 to use, as a libpq URL; empty: the embedded one", secret=True
    )
    data_dir: str = _setting("", "folder of the embedded PostgreSQL; empty: the user's data folder")
    host: str = _setting("127.0.0.1", "address to listen on")
    port: Annotated[int, Meta(ge=1, le=65535)] = _setting(9324, "port to listen on")
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] = _setting(
        0,
        "port on the same address for /metrics and /health, in plain HTTP, and then the only one"
        " that shows metrics; 0: the port of everything else",
    )
    tls_certificate: str = _setting(
        "",
        "file of the certificate and its chain, as PEM; with it the port takes TLS alone. The files"
        " are read again when they change; empty: plain HTTP",
    )
    tls_key: str = _setting("", "file of the certificate's key, as PEM and without a password")
    tls_client_ca: str = _setting(
        "",
        "file of the certificates, as PEM, of whom a client's certificate must be; empty: clients"
        " need none",
    )
    workers: Annotated[int, Meta(ge=0, le=256)] = _setting(
        0,
        "worker processes; 0: one a core, at most 4, and half of that with the embedded database,"
        " which works on the same cores",
    )
    max_requests: Annotated[int, Meta(ge=8, le=65_536)] = _setting(
        16_384, "requests at once in a worker; an eighth is never given to receivers that wait"
    )
    connections: Annotated[int, Meta(ge=1, le=100)] = _setting(
        4, "database connections of a worker"
    )
    connection_wait: Annotated[float, Meta(gt=0, le=60)] = _setting(
        10.0, "seconds that a request waits for a database connection before it is refused"
    )
    database_deadline: Annotated[float, Meta(ge=1, le=600)] = _setting(
        5.0, "seconds that a database call of a request may take before its connection is cut"
    )
    failover_wait: Annotated[float, Meta(ge=0, le=60)] = _setting(
        25.0, "seconds that a request waits for a database to write to before it is refused"
    )
    replication_check: Literal["", "refuse", "warn"] = _setting(
        "",
        "when a queue asks for a ReplicationMode that the cluster does not give; empty: warn on"
        " the embedded database, refuse elsewhere",
    )
    max_transaction_messages: Annotated[int, Meta(ge=1, le=10_000)] = _setting(
        500, "messages that requests which come together put into one transaction, at most"
    )
    public_url: str = _setting("", "base of queue URLs; empty: what the request's Host says")
    auth: Literal["", "on", "off"] = _setting(
        "", "check signatures; empty: off on loopback, on elsewhere"
    )
    allowed_hosts: str = _setting(
        "",
        "names, with a space between, by which clients may call a node that checks no signatures,"
        " besides localhost, addresses, its own and the public URL's",
    )
    trusted_proxies: str = _setting(
        "",
        "addresses or networks, with a space between, of proxies whose X-Forwarded-For,"
        " X-Forwarded-Proto and X-Forwarded-Host are believed",
    )
    rate_limit_key: Rate = _setting(
        0.0, "requests a second that a node takes from an access key; 0: no limit"
    )
    rate_limit_queue: Rate = _setting(
        0.0, "requests a second that a node takes for a queue; 0: no limit"
    )
    master_key: str = _setting(
        "",
        "key that the secrets of access keys are encrypted under, 32 bytes in base64; several, with"
        " a space between: the first encrypts, all decrypt",
        secret=True,
    )
    purge_cooldown: Seconds = _setting(60.0, "seconds between two purges of a queue; 0: no rule")
    name_cooldown: Seconds = _setting(
        60.0, "seconds before the name of a deleted queue can be used again; 0: no rule"
    )
    history: Literal["off", "metadata", "full"] = _setting(
        "metadata", "what new queues keep of a settled message"
    )
    history_retention: Annotated[int, Meta(ge=1, le=3650)] = _setting(
        7, "days that the history is kept"
    )
    archive: str = _setting(
        "",
        "lake that `skipmq analytics export` writes, a folder or any path of Hadoop's; a day of the"
        " history is then dropped only when the lake has it; empty: no archive",
    )
    cleanup_interval: Annotated[float, Meta(ge=1)] = _setting(
        3600.0, "seconds between two looks for days of the history to drop"
    )
    snapshot_limit: Seconds = _setting(
        300.0,
        "seconds that a session of the role skipmq_reader or of its members may hold a snapshot of"
        " the primary before it is ended; 0: no limit",
    )
    analytics_url: str = _setting(
        "",
        "database that Spark reads, as a libpq URL: a standby's, with the role skipmq_reader;"
        " empty: SKIPMQ_DATABASE_URL",
        secret=True,
    )
    spark_master: str = _setting("local[*]", "master of Spark, unless spark-submit names one")
    spark_jars: str = _setting(
        "",
        "PostgreSQL's driver for JDBC, as a file or coordinates of Maven; empty: Debian's if it is"
        " there, else org.postgresql:postgresql from Maven",
    )
    stop_delay: Annotated[int, Meta(ge=0, le=600)] = _setting(
        0, "seconds that a node that stops still serves, not ready, for its balancer to see it"
    )
    stop_timeout: Annotated[int, Meta(ge=1, le=600)] = _setting(
        30, "seconds that requests get to end when the node stops"
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "debug logs each request"
    )
    log_format: Literal["", "json", "text"] = _setting(
        "", "empty: text on a terminal, JSON elsewhere"
    )
    queues: tuple[DeclaredQueue, ...] = _setting(
        (), "queues to create at the start: [queues.NAME] tables of the TOML file"
    )

    @property
    def worker_count(self) -> int:
        """Return how many worker processes to run."""
        cores = min(os.cpu_count() or 1, 4)
        return self.workers or (cores if self.database_url else max(1, cores // 2))

    @property
    def scheme(self) -> str:
        """Return the scheme of the node's URLs."""
        return "https" if self.tls_certificate else "http"

    @property
    def max_waiting(self) -> int:
        """Return how many receivers may wait in a worker."""
        return self.max_requests - max(self.max_requests // 8, 4)

    @property
    def refuses_unreplicated(self) -> bool:
        """Return whether a queue may not ask for more replication than the cluster gives."""
        return (self.replication_check or ("refuse" if self.database_url else "warn")) == "refuse"

    @property
    def checks_signatures(self) -> bool:
        """Return whether requests must be signed."""
        return self.auth == "on" or (self.auth == "" and self.host not in LOOPBACK)

    @property
    def master_keys(self) -> tuple[bytes, ...]:
        """Return the master keys, the one that encrypts first."""
        return tuple(b64decode(key) for key in self.master_key.split())


def share_metrics(folder: Path) -> None:
    """Have this process keep its metrics in a folder; say so before the library is imported."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)


def prepare_spark(master: str) -> bool:
    """Let Spark find this Python and, all on this machine, stay on its loopback.

    Returns whether `spark-submit` has started it already, which then decides the latter.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted and master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return submitted


def java_home() -> str | None:
    """Return where Spark looks for Java before it looks on the path."""
    return os.environ.get("JAVA_HOME")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The effective settings and where each came from: `default`, a variable, or the file."""

    settings: Settings
    sources: Mapping[str, str]


def about(name: str) -> str:
    """Return the one-line description of a setting."""
    return next(str(f.metadata[_ABOUT]) for f in fields(Settings) if f.name == name)


def load(
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Configuration:
    """Return the effective settings.

    `overrides` are options of the command line. The file is `file`, or what SKIPMQ_CONFIG names.
    Raises ConfigError with every problem there is.
    """
    environment = os.environ if environment is None else environment
    problems: list[str] = []
    found: dict[str, tuple[Any, str]] = {}
    if file is None and environment.get("SKIPMQ_CONFIG"):
        file = Path(environment["SKIPMQ_CONFIG"])
    if file is not None:
        _read_file(file, found, problems)
    known = {f.name for f in fields(Settings)} - {"queues"}
    files = {f"{PREFIX}{name.upper()}_FILE": name for name in SECRETS}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable in _ONE_OF_US or variable in files:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in known:
            found[name] = (text, variable)
        else:
            problems.append(
                f"{variable}: there is no such setting{_resembling(name, known, PREFIX)}"
            )
    _read_secrets(environment, files, found, problems)
    for name, value in (overrides or {}).items():
        if value is not None:
            found[name] = (value, "command line")
    values = {
        name: _typed(name, value, source, problems) for name, (value, source) in found.items()
    }
    problems += [
        f"{found[name][1]}: {advice}"
        for name, (is_valid, advice) in _FORMS.items()
        if not is_valid(values.get(name) or "")
    ]
    if problems:
        raise ConfigError(problems)
    sources = {f.name: found[f.name][1] if f.name in found else "default" for f in fields(Settings)}
    return Configuration(Settings(**values), sources)


def _read_secrets(
    environment: Mapping[str, str],
    files: Mapping[str, str],
    found: dict[str, tuple[Any, str]],
    problems: list[str],
) -> None:
    """Read the files that hold a secret setting each, and systemd's credential."""
    for variable, name in files.items():
        if not (path := environment.get(variable)):
            continue
        if (other := f"{PREFIX}{name.upper()}") in environment:
            problems.append(f"{variable}: {other} is set too")
            continue
        try:
            found[name] = (Path(path).read_text(encoding="utf-8").strip(), variable)
        except (OSError, ValueError) as error:
            # Somebody may have put the secret where its file belongs.
            problems.append(f"{variable}: the file cannot be read: {_reason(error)}")
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if folder and "master_key" not in found and (file := Path(folder) / _CREDENTIAL).is_file():
        try:
            found["master_key"] = (file.read_text(encoding="utf-8").strip(), str(file))
        except (OSError, ValueError) as error:
            problems.append(f"{file} cannot be read: {_reason(error)}")


def _reason(error: Exception) -> str:
    """Return why a file cannot be read, without what is in it."""
    return (isinstance(error, OSError) and error.strerror) or "it is not text"


def _are_master_keys(text: str) -> bool:
    try:
        return all(len(b64decode(key, validate=True)) == _MASTER_KEY_BYTES for key in text.split())
    except ValueError:
        return False


def _are_networks(text: str) -> bool:
    try:
        return all(ip_network(each) for each in text.replace(",", " ").split())
    except ValueError:
        return False


# Whether a text is one, and what to write.
_FORMS: dict[str, tuple[Callable[[str], bool], str]] = {
    "master_key": (
        _are_master_keys,
        "a master key is 32 bytes in base64: `openssl rand -base64 32`",
    ),
    "trusted_proxies": (
        _are_networks,
        "write addresses or networks, such as 127.0.0.1 10.0.0.0/24, with a space between",
    ),
}


def _read_file(file: Path, found: dict[str, tuple[Any, str]], problems: list[str]) -> None:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problems.append(f"{file}: cannot be read as TOML: {error}")
        return
    known = {f.name for f in fields(Settings)}
    for name, value in content.items():
        if name not in known:
            problems.append(f"{file}: {name}: there is no such setting{_resembling(name, known)}")
        elif name == "queues":
            found[name] = (_declared_queues(file, value, problems), str(file))
        else:
            found[name] = (value, str(file))


def _declared_queues(file: Path, value: Any, problems: list[str]) -> tuple[DeclaredQueue, ...]:
    if not isinstance(value, dict) or not all(isinstance(v, dict) for v in value.values()):
        problems.append(f"{file}: queues: write a table for each queue, such as [queues.orders]")
        return ()
    return tuple(
        DeclaredQueue(name, {key: _as_text(v) for key, v in attributes.items()})
        for name, attributes in value.items()
    )


def _as_text(value: Any) -> str:
    """Return a value as SQS has it: a table, such as a RedrivePolicy, as JSON."""
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _typed(name: str, value: Any, source: str, problems: list[str]) -> Any:
    if name == "queues":
        return value
    hint = get_type_hints(Settings, include_extras=True)[name]
    try:
        return msgspec.convert(value, hint, strict=False)
    except msgspec.ValidationError as error:
        default = next(f.default for f in fields(Settings) if f.name == name)
        expected = f" (default {default!r})" if default not in ("", MISSING) else ""
        origin = source if source.startswith(PREFIX) else f"{source}: {name}"
        shown = "" if name in SECRETS else f"={value!r}"
        problems.append(f"{origin}{shown}: {str(error).lower()}{expected}")
        return None


def _resembling(name: str, known: set[str], prefix: str = "") -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only ever needed for this message.

    close = get_close_matches(name, known, n=1)
    close = [prefix + (name.upper() if prefix else name) for name in close]
    return f"; did you mean {close[0]}?" if close else "; `skipmq config` lists all"
