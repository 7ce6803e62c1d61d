"""The cluster: starting it, causing and ending faults, stopping it."""

import copy
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from local_cluster import addresses, certificates, health, layout, parts, patroni, programs, signals
from local_cluster.errors import ClusterError
from local_cluster.layout import LOOPBACK, SECOND_SCOPE, Server
from local_cluster.networks import Network
from local_cluster.parts import Supervisor
from local_cluster.patroni import Member
from local_cluster.recipes import OWNER, Passwords, Recipes, Replication, own_environment
from local_cluster.routers import Routers

# Ends with this process.
_CHILD = ("setpriv", "--pdeathsig", "TERM")
_SKIPMQ = (sys.executable, "-m", "skipmq")
# The slot on the first site from which the second one reads.
_SLOT = "second_site"
# Ten are usual; the machine may be busy.
_START_SECONDS = 120.0
# Each poll asks every server and node, which have no time for it while they start.
_POLL_SECONDS = 0.3


class LocalCluster:
    """Servers, nodes and balancers on this machine, while the `with` block runs.

    Its data is deleted at the end; its logs stay in the folder. The servers' data is in `data_in`,
    or as root in a system folder, where their account cannot access the folder. With `namespaces`
    (root only) each server (PostgreSQL, Patroni and etcd) has its own network and can be isolated.
    With `tls` all connections are encrypted: `layout.ca` signs all certificates.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 3,
        partitions: int = 1,
        servers: int = 3,
        replication: Replication = "quorum",
        connect: Literal["multi-host", "haproxy"] = "multi-host",
        fixed_ports: bool = False,
        namespaces: bool = False,
        node_environment: Mapping[str, str] | None = None,
        skipmq: Sequence[str] | None = None,
        hook: bool = True,
        reader: bool = False,
        second_site: bool = False,
        tls: bool = False,
        data_in: Path | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not (1 <= nodes <= layout.MOST and 1 <= servers <= layout.MOST - reader):
            raise ClusterError(
                f"a cluster has 1 to {layout.MOST} nodes, and as many servers with the reader"
            )
        if partitions > 1 and (reader or second_site or connect == "haproxy"):
            raise ClusterError(
                "with partitions there is no reader, no second site and no HAProxy in front of"
                " PostgreSQL: leave these options out"
            )
        self.folder = folder.absolute()
        self.passwords = Passwords()
        self.progress = progress
        self._replication, self._connect = replication, connect
        self._hook = hook
        self._skipmq = tuple(skipmq or _SKIPMQ)
        self._node_environment = dict(node_environment or {})
        self._partitions, self._servers, self._nodes = partitions, servers, nodes
        self._fixed_ports, self._namespaces = fixed_ports, namespaces
        self._reader, self._second_site, self._tls = reader, second_site, tls
        self._data_in = data_in
        self._stack = ExitStack()
        self._network: Network | None = None
        self._routers: Routers | None = None

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    @property
    def owner_url(self) -> str:
        """Return the URL of the schema's owner, on all servers; of the routers' superuser."""
        if self.layout.routers:
            return self._recipes.url("postgres", self.layout.routing())
        return self._recipes.url("skipmq", self.layout.writable())

    @property
    def node_url(self) -> str:
        """Return the nodes' database URL: of the routers, where there are partitions."""
        hosts = self.layout.writable()
        if self.layout.routers:
            hosts = self.layout.routing()
        elif self._connect == "haproxy":
            hosts = f"{LOOPBACK}:{self.layout.primary_port}"
        return self._recipes.url("skipmq_node", hosts)

    @property
    def analytics_url(self) -> str:
        """Return the URL for analytics: the replica if there is one, otherwise any standby."""
        return self._recipes.url("skipmq_reader", self.layout.readable(), "prefer-standby")

    @property
    def endpoint(self) -> str:
        """Return the URL of the balancer in front of the nodes."""
        return self.layout.endpoint

    def addresses(self) -> dict[str, Any]:
        """Return the address and the current process of each part."""
        pids = {name: part.pid for name, part in self._supervisor.parts.items()}
        found = addresses.parts(self.layout, pids, self._postmaster) | {
            "database_url": self.node_url,
            "owner_url": self.owner_url,
        }
        if not self.layout.routers:
            return found | {"analytics_url": self.analytics_url, "partitions": []}
        partitions = [self.partition(number) for number in range(self._partitions)]
        return found | {
            "partitions": [
                {"owner_url": each.owner_url, "analytics_url": each.analytics_url}
                for each in partitions
            ]
        }

    def partition(self, number: int) -> "LocalCluster":
        """Return this cluster as a partition is one: with its servers, and without the others."""
        view = copy.copy(self)
        view.layout = self.layout.partition(number)
        return view

    def members(self) -> list[Member]:
        """Return each server's own report."""
        return patroni.members(self.layout.servers)

    def leader(self) -> str:
        """Return the name of the primary; raise ClusterError if there is none."""
        return patroni.primary(self.layout.servers).name

    def ready(self) -> dict[str, bool]:
        """Return whether each node, and the balancer, is ready."""
        return health.ready(self.layout)

    def wait_healthy(self, timeout: float = 60) -> None:
        """Wait for one leader, standbys that stream and (with quorum) vote, and ready nodes.

        Raises ClusterError with the reason at the timeout.
        """
        deadline = time.monotonic() + timeout
        while missing := health.missing(self.layout, self._replication):
            if time.monotonic() > deadline:
                raise ClusterError(f"not healthy after {timeout:.0f} s: {missing}")
            time.sleep(_POLL_SECONDS)

    def supervise(self, part: str, on: bool) -> None:
        """Set whether a part is restarted when it exits, after its hook.

        A server whose part is not supervised behaves like a lost one: its hook does not run.
        """
        self._supervisor.part(part).is_supervised = on

    def start_part(self, part: str) -> None:
        """Start a part unless it runs."""
        self._supervisor.start(part)

    def isolate(self, server: str) -> None:
        """Disconnect a server from the others and from the nodes."""
        self._networked().isolate(self._server(server).number)

    def heal(self, server: str) -> None:
        """Reconnect a server."""
        self._networked().heal(self._server(server).number)

    def switchover(self, to: str = "") -> None:
        """Make another server the primary, and return when it is."""
        leader = self._server(self.leader())
        patroni.switchover(leader, leader.name, to, self.passwords.rest)

    def change_settings(self, settings: Mapping[str, Any]) -> None:
        """Change settings of Patroni where the primary is, as `patronictl edit-config` does."""
        leader = self._server(self.leader())
        patroni.change_settings(leader, dict(settings), self.passwords.rest)

    def promote_second_site(self) -> None:
        """Promote the second site; the first one must have stopped."""
        words = ["edit-config", SECOND_SCOPE, "--force", "--set", "standby_cluster=null"]
        self.patronictl(*words, site="second")

    def patronictl(self, *words: str, site: str = "first") -> str:
        """Run patronictl on a site's etcd; return what it prints."""
        command = [*self.patronictl_words(site), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"patronictl {' '.join(words)}: {done.stdout}{done.stderr}".strip())
        return done.stdout

    def patronictl_words(self, site: str = "first") -> list[str]:
        """Return the words that run patronictl on a site's etcd, before its arguments."""
        etcd = self.layout.etcd(site)[0]
        file = self.folder / f"patronictl-{site}.yml"
        self._stack.callback(file.unlink, missing_ok=True)
        patroni.write_for_patronictl(file, etcd, self.passwords.rest)
        return [self._programs.patroni_program("patronictl"), "-c", str(file)]

    def _begin(self) -> None:
        self._stack.enter_context(signals.sigterm_exits())
        self._programs = programs.find()
        if self._namespaces:
            count = self._partitions * self._servers + self._reader + self._second_site
            self._network = Network(count)
            self._stack.callback(self._network.remove)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._stack.enter_context(self._alone())
        self.data = self._make_data()
        self.layout = layout.plan(
            partitions=self._partitions,
            servers=self._servers,
            nodes=self._nodes,
            fixed_ports=self._fixed_ports,
            subnet=self._network.subnet if self._network else "",
            reader=self._reader,
            second_site=self._second_site,
            ca=self.data / "tls" / "ca.crt" if self._tls else None,
        )
        layout.check_free(self.layout)
        if self.layout.ca:
            self._make_certificates(self.layout.ca)
        logs = self.folder / "logs"
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir()
        self._recipes = Recipes(
            layout=self.layout,
            programs=self._programs,
            passwords=self.passwords,
            data=self.data,
            logs=logs,
            network=self._network,
            replication=self._replication,
        )
        if self.layout.routers:
            self._routers = Routers(self._recipes, programs.router_server(self._programs.account))
        self._supervisor = Supervisor(self._make_parts(), hook=self._hook)
        self._stack.callback(self._stop)
        self._start()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ClusterError(f"another cluster runs in {self.folder}: stop it") from error
            yield

    def _start(self) -> None:
        first = self.layout.site("first")
        self.progress("starting etcd")
        self._supervisor.start(*(server.etcd for server in self.layout.etcds))
        self.progress("starting PostgreSQL under Patroni")
        self._supervisor.start(*(server.name for server in first))
        self._await_servers(first)
        self.progress("creating the schema")
        if self._routers:
            deadline = time.monotonic() + _START_SECONDS
            self._routers.start(self._supervisor, deadline)
            urls = [self.partition(n).owner_url for n in range(self._partitions)]
            self._routers.init([*_CHILD, *self._skipmq], urls, deadline)
        else:
            self._migrate()
        self.progress("starting nodes and HAProxy")
        self._supervisor.start("haproxy", *(node.name for node in self.layout.nodes))
        if self._second_site:
            self.progress("starting the second site")
            self.change_settings({"slots": {_SLOT: {"type": "physical"}}})
            self._supervisor.start(*(server.name for server in self.layout.site("second")))
        self.wait_healthy(_START_SECONDS)

    def _await_servers(self, servers: Sequence[Server]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        scopes = dict.fromkeys(server.scope for server in servers)
        while missing := next(filter(None, (self._missing(scope) for scope in scopes)), ""):
            if time.monotonic() > deadline:
                ends = "\n".join(
                    f"{server.name}: {self._supervisor.part(server.name).last_lines()}"
                    for server in servers
                )
                raise ClusterError(f"PostgreSQL did not come up: {missing}\n{ends}")
            time.sleep(_POLL_SECONDS)

    def _missing(self, scope: str) -> str:
        return health.servers_missing(self.layout, scope, self._replication)

    def _migrate(self) -> None:
        patroni.run_once_created(
            [*_CHILD, *self._skipmq, "migrate"],
            {**own_environment(), "SKIPMQ_DATABASE_URL": self.owner_url},
            time.monotonic() + _START_SECONDS,
            "the schema could not be created",
        )

    def _make_parts(self) -> list[parts.Part]:
        recipes = self._recipes
        variables = {"SKIPMQ_DATABASE_URL": self.node_url, **self._node_environment}
        return [
            *(recipes.etcd(server) for server in self.layout.etcds),
            *(recipes.postgres(server) for server in self.layout.servers),
            *(self._routers.parts() if self._routers else ()),
            *(recipes.node(node, self._skipmq, variables) for node in self.layout.nodes),
            recipes.haproxy(),
        ]

    def _make_data(self) -> Path:
        """Create the folder of the servers' data where their account can access it."""
        account = self._programs.account
        if self._data_in or (account.name and not account.may("-x", self.folder)):
            place = self._data_in or "/var/tmp"  # noqa: S108 - a folder is made in it.
            data = Path(tempfile.mkdtemp(prefix="skipmq-cluster-", dir=place))
        else:
            data = self.folder / "data"
            shutil.rmtree(data, ignore_errors=True)
            data.mkdir()
        self._stack.callback(shutil.rmtree, data, ignore_errors=True)
        data.chmod(0o700)
        os.chown(data, account.uid, account.gid)
        return data

    def _make_certificates(self, ca: Path) -> None:
        ca.parent.mkdir()
        certificates.equip(ca, self.layout.machines())
        account = self._programs.account
        for path in (ca.parent, *ca.parent.rglob("*")):
            os.chown(path, account.uid, account.gid)

    def _stop(self) -> None:
        """Stop everything; kill the servers, since their data is temporary."""
        supervisor = self._supervisor
        supervisor.give_up()
        # First, since a node waits for its connections to end.
        parts.stop([supervisor.part("haproxy")])
        parts.stop(supervisor.part(node.name) for node in self.layout.nodes)
        servers = [each.name for each in self.layout.servers]
        servers += [each.name for each in self.layout.routers]
        etcds = [server.etcd for server in self.layout.etcds]
        parts.stop(map(supervisor.part, [*servers, *etcds]), signal.SIGKILL)
        supervisor.end()
        for name in servers:
            parts.kill(partial(parts.in_folder, self.data / name))
        # For example frozen workers of a node that was killed.
        parts.kill(partial(parts.with_variable, OWNER, str(self.data)))

    def _end(self) -> None:
        """Undo all completed steps, ignoring signals such as a second Ctrl-C."""
        with signals.ignored():
            self._stack.close()

    def _server(self, name: str) -> Server:
        for server in self.layout.servers:
            if server.name == name:
                return server
        names = ", ".join(server.name for server in self.layout.servers)
        raise ClusterError(f"there is no server {name!r}; there are {names}")

    def _networked(self) -> Network:
        if self._network is None:
            raise ClusterError("servers can be isolated only with namespaces=True")
        return self._network

    def _postmaster(self, server: Server) -> int | None:
        try:
            pid = int((self.data / server.name / "postmaster.pid").read_text().split("\n")[0])
        except (OSError, ValueError):
            return None
        return pid if Path(f"/proc/{pid}").exists() else None
