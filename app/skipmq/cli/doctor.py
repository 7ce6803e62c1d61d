"""The `doctor` command."""

import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import click
from rich.markup import escape
from rich.table import Table

from skipmq.broker.trouble_kinds import bound
from skipmq.cli.environment import configuration, data_folder, running_database
from skipmq.cli.local import open_node
from skipmq.cli.output import json_option, out, print_json
from skipmq.config.settings import Settings
from skipmq.database import condition, embedded, rights, schema, session
from skipmq.database.embedded import EmbeddedError
from skipmq.database.schema import SchemaError
from skipmq.protocol import errors
from skipmq.server.processes import certificate, listening
from skipmq.server.processes.certificate import CertificateError
from skipmq.server.processes.listening import ServeError
from skipmq.telemetry.logs import log

# Errors that the operator can correct.
_CORRECTABLE = (
    *(SchemaError, ServeError, CertificateError, EmbeddedError),
    *(session.Error, errors.SqsError),
)
# Remedies of errors that name none.
_CHECK_DATABASE = (
    "check SKIPMQ_DATABASE_URL and its role, and that the server runs and accepts connections"
)
_REMEDIES = {
    "pages": "restore what is damaged from a backup: see the runbook",
    "certificate": "renew the certificate, or correct SKIPMQ_TLS_CERTIFICATE and SKIPMQ_TLS_KEY",
    "port": "choose another port with SKIPMQ_PORT",
}
# The longest autovacuum_naptime that is recommended.
_VACUUM_SECONDS = 10


class Finding(NamedTuple):
    """The result of a check; a problem has a remedy."""

    check: str
    ok: bool
    detail: str
    remedy: str = ""


class _Findings(list[Finding]):
    """The finding of each check."""

    def examine(self, name: str, check: Callable[[], str]) -> None:
        """Run a check and add its detail, or the error that it raises."""
        try:
            self.append(Finding(name, True, check()))  # noqa: FBT003 - a record.
        except _CORRECTABLE as error:
            if isinstance(error, session.Error):
                detail = session.reason(error)
            else:
                detail = " ".join(str(error).split())
            self.append(Finding(name, False, detail, _remedy(name, error, detail)))  # noqa: FBT003


def _remedy(check: str, error: Exception, detail: str) -> str:
    """Return the remedy that the sentence of an error ends with, else that of the check."""
    if not isinstance(error, session.Error | errors.SqsError):
        for end in (". ", ": ", "; "):
            if end in detail:
                return detail.rpartition(end)[2]
    return _REMEDIES.get(check, _CHECK_DATABASE)


@click.command()
@json_option
@log.silenced()
def doctor_command(*, as_json: bool) -> None:
    """Check settings, database, schema, port and certificate, and suggest remedies.

    It starts no server and changes no file. The exit code is 1 if a check fails.
    """
    settings = configuration().settings
    findings = _Findings([Finding("settings", True, "valid")])  # noqa: FBT003
    findings.examine("database", lambda: _database(settings, findings))
    findings.examine("port", lambda: _port(settings))
    findings.examine("certificate", lambda: _certificate(settings))
    if as_json:
        print_json({"checks": [each._asdict() for each in findings]})
    else:
        table = Table("check", "", "detail", box=None, pad_edge=False)
        for name, ok, detail, remedy in findings:
            shown = detail if detail.endswith(remedy) else f"{detail}. Remedy: {remedy}"
            table.add_row(name, "[green]ok[/]" if ok else "[red]problem[/]", escape(shown))
        out.print(table)
    if not all(each.ok for each in findings):
        sys.exit(1)


def _database(settings: Settings, findings: _Findings) -> str:
    if not settings.database_url:
        status = embedded.status(data_folder(settings))
        if status.url is None:
            return str(status)
    _, url = running_database(settings)
    state = schema.inspect(url)
    schema.check_sessions(url, state)
    version = state.server_version
    findings.examine("schema", lambda: f"at {schema.check(url).found}")
    partitions = schema.partitions(url) if schema.is_router(url) else []
    if partitions:
        # A router has no tables, and no roles but those of its clients.
        findings.examine("roles of the router", lambda: _surplus(url))
    for number, part in enumerate(partitions or [url]):
        suffix = f" of partition {number}" if partitions else ""
        findings.examine(f"roles{suffix}", partial(_roles, part))
        findings.examine(f"planner{suffix}", partial(condition.check_planner, part))
        findings.examine(f"vacuum{suffix}", partial(_vacuum, part))
        findings.examine(f"pages{suffix}", partial(condition.check_pages, part))
        findings.examine(f"staged{suffix}", partial(condition.check_staged, part))
        findings.examine(f"sequences{suffix}", partial(condition.check_sequences, part))
    findings.examine("broker", lambda: _broker(settings, url))
    findings.examine("counts", lambda: _counts(settings, url))
    findings.examine("replication", lambda: _replication(settings, url))
    findings.examine("troubles", lambda: _troubles(settings, url))
    place = "SKIPMQ_DATABASE_URL" if settings.database_url else "embedded"
    what = f", a router of {len(partitions)} partitions: see also `skipmq partitions doctor`"
    untested = f", newer than those that SkipMQ is tested with, up to {schema.NEWEST_TESTED}"
    return (
        f"PostgreSQL {version // 10000}.{version % 10000} ({place})"
        f"{untested if state.is_untested else ''}{what if partitions else ''}"
    )


def _roles(url: str) -> str:
    found = [*rights.missing(url), *rights.surplus(url)]
    if not found:
        return "all roles and rights are present, and no others"
    what = "; ".join(right.what for right in found)
    if all(right.by_owner for right in found):
        raise SchemaError(f"{what}: run `skipmq migrate` as the schema's owner")
    raise SchemaError(
        f"{what}: run the SQL of `skipmq migrate --print-sql` as an administrator, then `skipmq"
        " migrate` as the owner"
    )


def _surplus(router: str) -> str:
    if found := rights.surplus(router):
        statements = "; ".join(f"{right.what}: {right.statement}" for right in found)
        raise SchemaError(f"{statements}; or run `skipmq partitions init` again")
    return "no others than a router gives"


def _broker(settings: Settings, url: str) -> str:
    with open_node(settings, url) as node:
        node.act("ListQueues")
    return "the node's functions can be called"


def _counts(settings: Settings, url: str) -> str:
    with open_node(settings, url) as node:
        age = node.counts_age()
        if age is None:
            return "not yet added up: no node has run"
        if age > bound("counts") and node.has_workers():
            raise SchemaError(
                f"not added up for {age:.0f} s, although a node runs: its log has the reason, after"
                ' `maintenance job failed job="fold all counts"`'
            )
    return f"added up {age:.0f} s ago"


def _replication(settings: Settings, url: str) -> str:
    with open_node(settings, url) as node:
        level = node.run(node.node.replication.level())
    if level.is_short:
        raise SchemaError(f"{level}; make a standby available")
    return str(level)


def _troubles(settings: Settings, url: str) -> str:
    """Report what `skipmq trouble` does, of the database and the nodes; it has those of queues."""
    with open_node(settings, url) as node:
        answer = node.act("GetOverview", MaxResults=100, Everywhere=True, Folded=True)
    found = answer["Troubles"]
    of_servers = [each for each in found if "Account" not in each]
    if of_servers:
        raise SchemaError(" ".join(f"{each['Summary']}: {each['Remedy']}" for each in of_servers))
    if found:
        return f"none of the database and the nodes; of queues {len(found)}: `skipmq trouble`"
    return "none"


def _vacuum(url: str) -> str:
    seconds = schema.vacuum_seconds(url)
    if seconds is None:
        raise SchemaError(
            "autovacuum is off, so tables grow indefinitely: alter system set autovacuum = on;"
            " select pg_reload_conf()"
        )
    if seconds > _VACUUM_SECONDS:
        return (
            f"every {seconds} s: tables stay smaller with autovacuum_naptime = {_VACUUM_SECONDS}s"
        )
    return f"every {seconds} s"


def _port(settings: Settings) -> str:
    try:
        with listening.address(settings):
            return f"{settings.host} port {settings.port} is free"
    except listening.PortError:
        if listening.has_node(settings):
            return f"{settings.host} port {settings.port} is used by a running SkipMQ node"
        raise


def _certificate(settings: Settings) -> str:
    own = certificate.read(settings)
    return own.check_validity() if own else "none: the port accepts plain HTTP"
