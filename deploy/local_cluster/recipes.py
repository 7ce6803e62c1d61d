"""The command, variables and files of each part."""

import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from local_cluster.layout import LOOPBACK, Layout, Node, Router, Server
from local_cluster.networks import Network
from local_cluster.parts import Part
from local_cluster.patroni import USER
from local_cluster.programs import HAPROXY, PATRONI, Programs

Replication = Literal["quorum", "asynchronous"]
# The variable that identifies every process of a cluster; its value is the data folder.
OWNER = "LOCAL_CLUSTER"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _secret() -> str:
    return secrets.token_hex(12)


@dataclass(frozen=True, slots=True)
class Passwords:
    """A password for each role, generated for each cluster."""

    superuser: str = field(default_factory=_secret)
    replication: str = field(default_factory=_secret)
    rest: str = field(default_factory=_secret)
    owner: str = field(default_factory=_secret)
    node: str = field(default_factory=_secret)
    reader: str = field(default_factory=_secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipes:
    """Creates the parts of one cluster. `data` belongs to the account that runs the servers."""

    layout: Layout
    programs: Programs
    passwords: Passwords
    data: Path
    logs: Path
    network: Network | None
    replication: Replication

    def etcd(self, server: Server) -> Part:
        """Return the member of etcd on a server."""
        peers = self.layout.etcd(server.site)
        command = [str(self.programs.etcd), "--name", server.etcd]
        command += ["--data-dir", str(self.data / server.etcd)]
        command += ["--listen-client-urls", server.etcd_url]
        command += ["--advertise-client-urls", server.etcd_url]
        command += ["--listen-peer-urls", server.peer_url]
        command += ["--initial-advertise-peer-urls", server.peer_url]
        command += ["--initial-cluster", ",".join(f"{p.etcd}={p.peer_url}" for p in peers)]
        command += ["--initial-cluster-state", "new", "--initial-cluster-token", server.site]
        # All servers share one machine's cores and disk.
        command += ["--heartbeat-interval", "200", "--election-timeout", "2000"]
        if self.layout.ca:
            own = {"cert": self._own(server.name, "crt"), "key": self._own(server.name, "key")}
            files = {**own, "trusted-ca": str(self.layout.ca)}
            for kind in ("", "peer-"):
                command += [f"--{kind}{what}-file={file}" for what, file in files.items()]
                command += [f"--{kind}client-cert-auth"]
        command += ["--logger", "zap", "--log-level", "warn"]
        return self._part(server.etcd, [*self._on(server), *command], {})

    def postgres(self, server: Server) -> Part:
        """Return Patroni on a server; its configuration is written first."""
        settings = self.configure(server)
        python = self.programs.patroni_program("python")
        forget = [python, str(self.data / "bin" / "forget_leader"), str(settings)]
        command = [self.programs.patroni_program("patroni"), str(settings)]
        part = self._part(server.name, [*self._on(server), *command], self._variables(server))
        part.hook = [*self._on(server), *forget]
        return part

    def router(self, router: Router, server: Path) -> Part:
        """Return a router on the PostgreSQL of a folder of programs; its data is made first."""
        own = {
            "listen_addresses": LOOPBACK,
            "port": str(router.port),
            "unix_socket_directories": "",
            "shared_buffers": "16MB",
            "jit": "off",
            # What it has can be made again.
            "fsync": "off",
        }
        if self.layout.ca:
            files = self._own(router.name, "crt"), self._own(router.name, "key")
            own |= {"ssl": "on", "ssl_cert_file": files[0], "ssl_key_file": files[1]}
        command = [*self.programs.account.words(), str(server / "postgres")]
        command += ["-D", str(self.data / router.name)]
        command += [word for name, value in own.items() for word in ("-c", f"{name}={value}")]
        return self._part(router.name, command, {})

    def haproxy(self) -> Part:
        """Return HAProxy in front of the nodes and, without routers, of the servers."""
        variables = {"LISTEN": f"{LOOPBACK}:{self.layout.endpoint_port}"}
        names = ["nodes.cfg"]
        for number, node in enumerate(self.layout.nodes, 1):
            variables[f"NODE{number}"] = f"{LOOPBACK}:{node.port}"
        if not self.layout.routers:
            names.append("postgres.cfg")
            variables["PRIMARY"] = f"{LOOPBACK}:{self.layout.primary_port}"
            variables["REPLICA"] = f"{LOOPBACK}:{self.layout.replica_port}"
            for number, server in enumerate(self.layout.site("first"), 1):
                variables[f"POSTGRES{number}"] = server.postgres
                variables[f"PATRONI{number}"] = str(server.rest_port)
        if self.layout.ca:
            variables |= dict.fromkeys(("NODE_CA", "PATRONI_CA"), str(self.layout.ca))
            variables |= {"NODE_NAME": "localhost", "CERTIFICATE": self._own("haproxy", "pem")}
        command = [*self.programs.account.words(), str(self.programs.haproxy), "-db"]
        for name in names:
            command += ["-f", str(shutil.copy(HAPROXY / name, self.data))]
        return self._part("haproxy", command, variables)

    def node(self, node: Node, skipmq: Sequence[str], variables: Mapping[str, str]) -> Part:
        """Return a node, which runs as the current account."""
        command = ["setpriv", "--pdeathsig", "TERM", *skipmq, "serve"]
        part = self._part(node.name, command, {})
        part.environment = {
            **own_environment(),
            OWNER: str(self.data),
            "SKIPMQ_HOST": LOOPBACK,
            "SKIPMQ_PORT": str(node.port),
            "SKIPMQ_WORKERS": "1",
            "SKIPMQ_STOP_TIMEOUT": "5",
            **variables,
        }
        if self.layout.ca:
            own = self._own(node.name, "crt"), self._own(node.name, "key")
            names = "SKIPMQ_TLS_CERTIFICATE", "SKIPMQ_TLS_KEY"
            part.environment |= dict(zip(names, own, strict=True))
        return part

    def url(
        self,
        role: Literal["skipmq", "skipmq_node", "skipmq_reader", "postgres"],
        hosts: str,
        target: Literal["read-write", "prefer-standby"] = "read-write",
    ) -> str:
        """Return the URL of SkipMQ's database for a role, on `host:port,host:port`."""
        passwords = self.passwords
        password = {
            "skipmq": passwords.owner,
            "skipmq_node": passwords.node,
            "skipmq_reader": passwords.reader,
            "postgres": passwords.superuser,
        }[role]
        words: dict[str, str] = {"target_session_attrs": target}
        if self.layout.ca:
            words |= {"sslmode": "verify-full", "sslrootcert": str(self.layout.ca)}
        return f"postgresql://{role}:{password}@{hosts}/skipmq?{urlencode(words, safe='/')}"

    def configure(self, server: Server) -> Path:
        """Write the folder of Patroni's configuration; return it."""
        folder = self.data / f"{server.name}.conf.d"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(PATRONI / "patroni.yml", folder / "10-patroni.yml")
        if self.layout.ca:
            # Only the directory differs.
            text = (PATRONI / "tls.yml").read_text()
            own = str(self.layout.ca.parent / server.name)
            (folder / "20-tls.yml").write_text(text.replace("/etc/patroni/tls", own))
        if server.is_reader:
            shutil.copy(PATRONI / "reader.yml", folder / "50-reader.yml")
        if server.site == "second":
            shutil.copy(PATRONI / "second_site.yml", folder / "50-second_site.yml")
        # JSON is YAML.
        (folder / "90-local.yml").write_text(json.dumps(self._local(server), indent=2))
        scripts = self.data / "bin"
        scripts.mkdir(exist_ok=True)
        for name in ("post_bootstrap", "forget_leader"):
            shutil.copy(PATRONI / name, scripts)
        for path in (scripts, *scripts.iterdir(), folder):
            path.chmod(0o755)
        for path in folder.iterdir():
            path.chmod(0o644)
        return folder

    def _local(self, server: Server) -> dict[str, Any]:
        """Return the settings for a small test machine."""
        dcs: dict[str, Any] = {}
        if self.replication == "asynchronous":
            dcs |= {"synchronous_mode": False, "synchronous_mode_strict": False}
        if server.site == "second":
            dcs["standby_cluster"] = self._first_site()
        return {
            "bootstrap": {"dcs": dcs, "post_bootstrap": str(self.data / "bin" / "post_bootstrap")},
            "postgresql": {
                "parameters": {
                    "unix_socket_directories": "",
                    "shared_buffers": "64MB",
                    "max_wal_size": "512MB",
                }
            },
            "watchdog": {"mode": "off"},
        }

    def _first_site(self) -> dict[str, Any]:
        """Return the first site's address for the second: Patroni takes several hosts, one port."""
        if self.network:
            hosts = ",".join(server.host for server in self.layout.voters())
            return {"host": hosts, "port": self.layout.voters()[0].postgres_port}
        return {"host": LOOPBACK, "port": self.layout.primary_port}

    def _variables(self, server: Server) -> dict[str, str]:
        peers = self.layout.etcd(server.site)
        passwords = self.passwords
        return {
            "PATRONI_NAME": server.name,
            "PATRONI_SCOPE": server.scope,
            "PATRONI_POSTGRESQL_LISTEN": server.postgres,
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": server.postgres,
            "PATRONI_RESTAPI_LISTEN": f"{server.host}:{server.rest_port}",
            "PATRONI_RESTAPI_CONNECT_ADDRESS": f"{server.host}:{server.rest_port}",
            "PATRONI_ETCD3_HOSTS": ",".join(f"{p.host}:{p.etcd_port}" for p in peers),
            "PATRONI_POSTGRESQL_DATA_DIR": str(self.data / server.name),
            "PATRONI_POSTGRESQL_BIN_DIR": str(self.programs.postgres),
            "PATRONI_POSTGRESQL_PGPASS": str(self.data / f"{server.name}.pgpass"),
            "PATRONI_SUPERUSER_USERNAME": "postgres",
            "PATRONI_SUPERUSER_PASSWORD": passwords.superuser,
            "PATRONI_REPLICATION_USERNAME": "replicator",
            "PATRONI_REPLICATION_PASSWORD": passwords.replication,
            "PATRONI_RESTAPI_USERNAME": USER,
            "PATRONI_RESTAPI_PASSWORD": passwords.rest,
            "OWNER_PASSWORD": passwords.owner,
            "NODE_PASSWORD": passwords.node,
            "READER_PASSWORD": passwords.reader,
        }

    def _own(self, machine: str, kind: Literal["crt", "key", "pem"]) -> str:
        """Return a file of a machine's certificate."""
        assert self.layout.ca is not None
        return str(self.layout.ca.parent / machine / f"server.{kind}")

    def _on(self, server: Server) -> list[str]:
        """Return the words that run the command after them on a server, as the account."""
        network = self.network.words(server.number) if self.network else []
        return [*network, *self.programs.account.words()]

    def _part(self, name: str, command: list[str], variables: Mapping[str, str]) -> Part:
        environment = {
            "PATH": f"{self.programs.postgres}:{_PATH}",
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.data),
            OWNER: str(self.data),
            **variables,
        }
        log = self.logs / f"{name}.log"
        return Part(name=name, command=command, environment=environment, log=log)


def own_environment() -> dict[str, str]:
    """Return this process's environment without SkipMQ settings, which the cluster sets."""
    own = os.environ  # noqa: TID251 - what a child inherits.
    return {name: value for name, value in own.items() if not name.startswith("SKIPMQ_")}
