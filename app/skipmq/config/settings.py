"""The settings of a node: names, types, defaults and descriptions."""

import os
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from skipmq.config.declarations import DeclaredQueue
from skipmq.protocol import addresses, limits
from skipmq.protocol.identity import Identity

LOOPBACK = {"127.0.0.1", "::1", "localhost"}
# Settings that are secret or hold a password; SKIPMQ_X_FILE names a file that contains SKIPMQ_X.
SECRETS = ("database_url", "analytics_url", "master_key")
_MASTER_KEY_BYTES = 32

Seconds = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(ge=0)]


def _setting(default: Any, about: str, *, secret: bool = False) -> Any:
    return field(default=default, metadata={"about": about}, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a node; setting `x` is the variable SKIPMQ_X and the key `x` in TOML."""

    database_url: str = _setting(
        "", "PostgreSQL 15-18 to use, as a libpq URL; empty: the embedded one", secret=True
    )
    data_dir: str = _setting("", "folder of the embedded PostgreSQL; empty: the user's data folder")
    host: str = _setting("127.0.0.1", "address to listen on")
    port: Annotated[int, Meta(ge=0, le=65535)] = _setting(9324, "port to listen on; 0: a free one")
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] = _setting(
        0,
        "separate port on the same address for /metrics and /health, in plain HTTP; 0: none",
    )
    metrics_main_port: Literal["", "on", "off"] = _setting(
        "",
        "show /metrics, of all accounts, on the main port; empty: if no signatures are checked and"
        " SKIPMQ_METRICS_PORT is 0",
    )
    tls_certificate: str = _setting(
        "",
        "PEM file of the certificate and its chain, for which the port accepts TLS only; reloaded"
        " when it changes; empty: plain HTTP",
    )
    tls_key: str = _setting("", "PEM file of the certificate's key, without a password")
    tls_client_ca: str = _setting(
        "",
        "PEM file of the CA certificates that must have issued a client's certificate; empty:"
        " clients need no certificate",
    )
    workers: Annotated[int, Meta(ge=0, le=256)] = _setting(
        0,
        "worker processes; 0: one per core, at most 4, and one with the embedded database, which"
        " shares the cores",
    )
    max_requests: Annotated[int, Meta(ge=8, le=65_536)] = _setting(
        16_384,
        "concurrent requests of a worker; an eighth of them is reserved for others than waiting"
        " receivers",
    )
    max_connections: Annotated[int, Meta(ge=16, le=1_000_000)] = _setting(
        32_768, "client connections of a worker; excess ones get 503"
    )
    connections: Annotated[int, Meta(ge=1, le=100)] = _setting(
        4, "database connections of a worker"
    )
    database_deadline: Annotated[float, Meta(ge=1, le=600)] = _setting(
        5.0, "seconds that a statement of a request may take before its connection is closed"
    )
    failover_wait: Annotated[float, Meta(ge=0, le=60)] = _setting(
        25.0, "seconds that a request waits for a writable database before it gets 503"
    )
    replication_check: Literal["", "refuse", "warn"] = _setting(
        "",
        "what to do with a ReplicationMode that the cluster does not support; empty: warn with the"
        " embedded database, refuse otherwise",
    )
    public_url: str = _setting("", "base of queue URLs; empty: from the request's Host header")
    auth: Literal["", "on", "off"] = _setting(
        "", "check signatures; empty: off on loopback, on otherwise"
    )
    account: Annotated[str, Meta(pattern="^[0-9]{12}$")] = _setting(
        limits.DEFAULT_ACCOUNT,
        "account of requests that are not signed, of the command line, and of declared queues",
    )
    region: Annotated[str, Meta(pattern="^[a-z0-9-]{1,32}$")] = _setting(
        limits.DEFAULT_REGION,
        "region where none is given: of requests that are not signed, of the command line, and of"
        " declared queues",
    )
    endpoint: str = _setting(
        "",
        "URL of a node that `skipmq queue …` calls, with the key of AWS's variables, in place of"
        " the database; empty: the database",
    )
    client_certificate: str = _setting(
        "", "PEM file of the certificate that `skipmq queue …` shows to the node at the endpoint"
    )
    client_key: str = _setting(
        "", "PEM file of that certificate's private key; empty: it is in the certificate's file"
    )
    allowed_hosts: str = _setting(
        "",
        "host names, separated by spaces, by which clients may call a node that checks no"
        " signatures, in addition to localhost, addresses, its own name and the public URL's;"
        " *.NAME: all below it; *: all without a dot",
    )
    delivery_networks: str = _setting(
        "",
        "networks that topics may deliver to over HTTP as well as public addresses, separated by"
        " commas; a node on loopback delivers to all",
    )
    trusted_proxies: str = _setting(
        "",
        "addresses or networks, separated by spaces, of proxies whose X-Forwarded-For,"
        " X-Forwarded-Proto and X-Forwarded-Host are trusted",
    )
    rate_limit_key: Rate = _setting(
        0.0, "requests per second of an access key on a node; 0: no limit"
    )
    rate_limit_queue: Rate = _setting(0.0, "requests per second for a queue on a node; 0: no limit")
    master_key: str = _setting(
        "",
        "key that encrypts the secrets of access keys, 32 bytes in base64; of several, separated by"
        " spaces, the first encrypts and all decrypt",
        secret=True,
    )
    purge_cooldown: Seconds = _setting(60.0, "seconds between two purges of a queue; 0: no limit")
    name_cooldown: Seconds = _setting(
        60.0, "seconds before the name of a deleted queue can be used again; 0: no limit"
    )
    history: Literal["off", "metadata", "full"] = _setting(
        "metadata", "what the history of new queues keeps of a settled message"
    )
    history_retention: Annotated[int, Meta(ge=1, le=3650)] = _setting(
        7, "days that the history is kept"
    )
    archive: str = _setting(
        "",
        "lake that `skipmq analytics export` writes, as a folder or a Hadoop path; a day of the"
        " history is dropped only after its export; empty: no archive",
    )
    snapshot_limit: Seconds = _setting(
        300.0,
        "seconds that a session of the role skipmq_reader or its members may hold a snapshot of the"
        " primary before it is terminated; 0: no limit",
    )
    analytics_url: str = _setting(
        "",
        "database that Spark reads, as a libpq URL: a standby, with the role skipmq_reader;"
        " empty: SKIPMQ_DATABASE_URL",
        secret=True,
    )
    spark_master: str = _setting("local[*]", "Spark master, unless spark-submit sets one")
    spark_jars: str = _setting(
        "",
        "PostgreSQL JDBC driver, as a file or Maven coordinates; empty: Debian's if installed,"
        " otherwise org.postgresql:postgresql from Maven",
    )
    stop_delay: Annotated[int, Meta(ge=0, le=600)] = _setting(
        0, "seconds that a stopping node still serves while not ready, for its load balancer"
    )
    stop_timeout: Annotated[int, Meta(ge=1, le=600)] = _setting(
        30, "seconds that requests have to finish when the node stops"
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "debug logs every request"
    )
    log_format: Literal["", "json", "text"] = _setting(
        "", "empty: text on a terminal, JSON otherwise"
    )
    log_sample: Annotated[float, Meta(ge=0, le=1)] = _setting(
        0.0, "fraction of the requests for messages to log: 0.01 logs one in a hundred"
    )
    tracing: Literal["off", "on"] = _setting(
        "off",
        "export OpenTelemetry traces, configured by the OTEL_ variables; needs"
        " skipmq[opentelemetry]",
    )
    audit_days: Annotated[int, Meta(ge=0, le=3650)] = _setting(
        90, "days that the audit log is kept in the database; 0: not written there"
    )
    metrics_queues: Annotated[int, Meta(ge=0, le=10_000)] = _setting(
        100, "number of queues, the busiest, with metrics of their own"
    )
    console_mask: str = _setting(
        "",
        "fields of messages that the console masks, separated by commas: names of attributes and of"
        " members of JSON bodies, or dotted paths, as in password,card.number",
    )
    runbook_url: Annotated[str, Meta(pattern="^(https?:/)?/")] = _setting(
        "/console/runbook",
        "address of the runbook, the node's or yours, to whose sections the console and skipmq"
        " trouble refer",
    )
    queues: tuple[DeclaredQueue, ...] = _setting(
        (), "queues to create at start-up: [queues.NAME] tables of the TOML file, of names or ARNs"
    )

    @property
    def identity(self) -> Identity:
        """Return the identity of callers that are not signed in, and of the command line."""
        return Identity(self.account, self.region, self.account)

    @property
    def worker_count(self) -> int:
        """Return the number of worker processes to run."""
        return self.workers or (min(os.cpu_count() or 1, 4) if self.database_url else 1)

    @property
    def scheme(self) -> str:
        """Return the scheme of the node's URLs."""
        return "https" if self.tls_certificate else "http"

    @property
    def shows_metrics(self) -> bool:
        """Return whether the main port shows metrics."""
        if self.metrics_main_port:
            return self.metrics_main_port == "on"
        return not (self.metrics_port or self.checks_signatures)

    @property
    def max_waiting(self) -> int:
        """Return the maximum number of waiting receivers in a worker."""
        return self.max_requests - max(self.max_requests // 8, 4)

    @property
    def refuses_unreplicated(self) -> bool:
        """Return whether to refuse a ReplicationMode that the cluster does not support."""
        return (self.replication_check or ("refuse" if self.database_url else "warn")) == "refuse"

    @property
    def checks_signatures(self) -> bool:
        """Return whether requests must be signed."""
        return self.auth == "on" or (self.auth == "" and self.host not in LOOPBACK)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Return the additional host names by which clients may call the node."""
        return tuple(listed(self.allowed_hosts))

    @property
    def masked_fields(self) -> tuple[str, ...]:
        """Return the names and paths of the fields that the console masks."""
        return tuple(listed(self.console_mask))

    @property
    def proxies(self) -> tuple[addresses.Network, ...]:
        """Return the networks of trusted proxies; raise ValueError for an invalid one."""
        return tuple(addresses.network(each) for each in listed(self.trusted_proxies))

    @property
    def delivery_allowed(self) -> tuple[addresses.Network, ...]:
        """Return the networks that topics may deliver to; raise ValueError for an invalid one."""
        return tuple(addresses.network(each) for each in listed(self.delivery_networks))

    @property
    def master_keys(self) -> tuple[bytes, ...]:
        """Return the master keys, the encrypting one first; raise ValueError for an invalid one."""
        keys = tuple(b64decode(key, validate=True) for key in listed(self.master_key))
        if any(len(key) != _MASTER_KEY_BYTES for key in keys):
            raise ValueError
        return keys


def listed(text: str) -> list[str]:
    """Return the items of a list setting, separated by spaces or commas."""
    return text.replace(",", " ").split()
