"""The stand-alone server: its sockets and processes."""

import signal
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from skipmq.config.settings import Settings
from skipmq.server.processes import systemd, worker
from skipmq.server.processes.certificate import Certificate, CertificateError, Watch, stage
from skipmq.server.processes.listening import ServeError, bound
from skipmq.server.processes.supervisor import CrashLoopError, Supervisor
from skipmq.server.processes.worker import Work
from skipmq.telemetry import metrics_folder
from skipmq.telemetry.logs import log

if TYPE_CHECKING:
    from skipmq.server.web import Mount


def run(  # noqa: PLR0913 - the parameters of a node.
    settings: Settings,
    host: str,
    database_url: str,
    certificate: Certificate | None,
    ready: Callable[[], None],
    *,
    mount: "Mount | None" = None,
    parent: int | None = None,
    controls: str = "",
) -> None:
    """Serve on `host` until SIGINT, SIGTERM or SIGHUP, then drain and return.

    The caller has checked the schema. Calls `ready` once a worker accepts requests. `mount` adds
    pages to those of the server; the node stops when the descriptor `parent` ends. `controls` is
    the URL of the owner of a temporary database, whose only worker tests may control. Raises
    ServeError if workers end repeatedly after their start.
    """
    # Signals stay pending until the worker or the supervisor handles them.
    signal.pthread_sigmask(signal.SIG_BLOCK, worker.STOP_SIGNALS)
    count = settings.worker_count
    with ExitStack() as stack:
        folder = stack.enter_context(metrics_folder.shared()) if count > 1 or certificate else None
        files, watch = None, None
        if certificate is not None:
            assert folder is not None
            files, watch = stage(certificate, folder), Watch(settings, certificate, folder)
            try:
                certificate.check_validity()
            except CertificateError as error:
                log.warning("check the certificate", error=str(error))
        sockets = [
            stack.enter_context(bound(host, settings.port, shared=count > 1)) for _ in range(count)
        ]
        probes = None
        if settings.metrics_port:
            probes = stack.enter_context(bound(host, settings.metrics_port))
        work = Work(settings, database_url, sockets, probes, folder, files, mount, controls)

        def announce() -> None:
            systemd.notify("READY=1")
            ready()

        if count == 1:
            worker.run(work, announce, watch, parent=parent)
            return
        try:
            Supervisor(work, announce, watch, parent).run()
        except CrashLoopError as error:
            raise ServeError(str(error)) from error
