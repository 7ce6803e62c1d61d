"""The settings of a node: names, types, defaults and what each is for."""

import os
from base64 import b64decode
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from skipmq import limits
from skipmq.model import DeclaredQueue

LOOPBACK = {"127.0.0.1", "::1", "localhost"}
# Settings that are secret, or hold a password: SKIPMQ_X_FILE names a file with SKIPMQ_X in it.
SECRETS = ("database_url", "analytics_url", "master_key")
_MASTER_KEY_BYTES = 32

Network: TypeAlias = IPv4Network | IPv6Network
Seconds = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(ge=0)]


def _setting(default: Any, about: str, *, secret: bool = False) -> Any:
    return field(default=default, metadata={"about": about}, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of a node; the variable of `x` is SKIPMQ_X, its key in the TOML file `x`."""

    database_url: str = _setting(
        "", "PostgreSQL 15-18 to use, as a libpq URL; empty: the embedded one", secret=True
    )
    data_dir: str = _setting("", "folder of the embedded PostgreSQL; empty: the user's data folder")
    host: str = _setting("127.0.0.1", "address to listen on")
    port: Annotated[int, Meta(ge=0, le=65535)] = _setting(9324, "port to listen on; 0: a free one")
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] = _setting(
        0,
        "port on the same address for /metrics and /health, in plain HTTP; 0: none of its own",
    )
    metrics_main_port: Literal["", "on", "off"] = _setting(
        "",
        "show /metrics, of all accounts, on the port of everything else; empty: where no signatures"
        " are checked and SKIPMQ_METRICS_PORT is 0",
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
        "worker processes; 0: one a core, at most 4, and one with the embedded database, which"
        " works on the same cores",
    )
    max_requests: Annotated[int, Meta(ge=8, le=65_536)] = _setting(
        16_384, "requests at once in a worker; an eighth is never given to receivers that wait"
    )
    max_connections: Annotated[int, Meta(ge=16, le=1_000_000)] = _setting(
        32_768, "connections of clients to a worker; the next one is answered 503"
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
    region: Annotated[str, Meta(pattern="^[a-z0-9-]{1,32}$")] = _setting(
        limits.DEFAULT_REGION,
        "region of the node's queues: of all of them where no signatures are checked, whatever"
        " region a client has, else of what names none, as the command line",
    )
    allowed_hosts: str = _setting(
        "",
        "names, with a space between, by which clients may call a node that checks no signatures,"
        " besides localhost, addresses, its own and the public URL's; *.NAME: all below it; *: all"
        " without a dot",
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
        "info", "debug logs every request"
    )
    log_format: Literal["", "json", "text"] = _setting(
        "", "empty: text on a terminal, JSON elsewhere"
    )
    log_sample: Annotated[float, Meta(ge=0, le=1)] = _setting(
        0.0, "part of the requests for messages that are logged: 0.01 logs one in a hundred"
    )
    tracing: Literal["off", "on"] = _setting(
        "off",
        "export traces by OpenTelemetry, as the OTEL_ variables say; needs skipmq[opentelemetry]",
    )
    audit_days: Annotated[int, Meta(ge=0, le=3650)] = _setting(
        90, "days that the audit log is kept in the database; 0: none is written there"
    )
    metrics_queues: Annotated[int, Meta(ge=0, le=10_000)] = _setting(
        100, "queues, the busiest, that have metrics of their own"
    )
    console_mask: str = _setting(
        "",
        "fields of messages that the console never shows, with a comma between: names of members"
        " of JSON bodies and of attributes, or dotted paths, as in password,card.number",
    )
    queues: tuple[DeclaredQueue, ...] = _setting(
        (), "queues to create at the start: [queues.NAME] tables of the TOML file"
    )

    @property
    def worker_count(self) -> int:
        """Return how many worker processes to run."""
        return self.workers or (min(os.cpu_count() or 1, 4) if self.database_url else 1)

    @property
    def scheme(self) -> str:
        """Return the scheme of the node's URLs."""
        return "https" if self.tls_certificate else "http"

    @property
    def shows_metrics(self) -> bool:
        """Return whether the port of everything else shows metrics."""
        if self.metrics_main_port:
            return self.metrics_main_port == "on"
        return not (self.metrics_port or self.checks_signatures)

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
    def host_names(self) -> tuple[str, ...]:
        """Return the other names by which clients may call the node."""
        return tuple(listed(self.allowed_hosts))

    @property
    def masked_fields(self) -> tuple[str, ...]:
        """Return the names and paths of what the console masks."""
        return tuple(listed(self.console_mask))

    @property
    def proxies(self) -> tuple[Network, ...]:
        """Return the networks of proxies that are believed; raise ValueError for what is none."""
        return tuple(ip_network(each) for each in listed(self.trusted_proxies))

    @property
    def master_keys(self) -> tuple[bytes, ...]:
        """Return the master keys, that which encrypts first; raise ValueError for bad ones."""
        keys = tuple(b64decode(key, validate=True) for key in listed(self.master_key))
        if any(len(key) != _MASTER_KEY_BYTES for key in keys):
            raise ValueError
        return keys


def listed(text: str) -> list[str]:
    """Return the items of a setting that is a list, with spaces or commas between."""
    return text.replace(",", " ").split()
