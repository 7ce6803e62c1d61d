"""OpenLineage events of exports and reports, for catalogues that show where data come from."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from skipmq import config, release
from skipmq.database import session
from skipmq.terminal import visible

_NAMESPACE = "skipmq"
_PRODUCER = f"pkg:pypi/skipmq@{release.VERSION}"  # A package URL.
_SCHEMA = "skipmq_views"


class Dataset(NamedTuple):
    """What a run reads or writes, named as the specification of OpenLineage wants it."""

    namespace: str
    name: str


class Run:
    """A run of a command; `rows` is the number of rows that it wrote, once that is known."""

    rows: int | None = None


def database_view(url: str, view: str) -> Dataset:
    """Return a view of the database; of several hosts the first is named."""
    parts = session.parameters(url)
    host, port = (str(parts.get(name) or "").split(",")[0] for name in ("host", "port"))
    if not host or host.startswith("/"):  # A socket.
        host = "localhost"
    database = parts.get("dbname") or parts.get("user") or ""
    return Dataset(f"postgres://{host}:{port or 5432}", f"{database}.{_SCHEMA}.{view}")


def folder(location: str, name: str = "") -> Dataset:
    """Return a folder, or the one of this name in it, here or in an object store."""
    found = urlsplit(location)
    if not found.scheme:
        return Dataset("file", str(Path(location).absolute() / name))
    scheme = "s3" if found.scheme in {"s3a", "s3n"} else found.scheme
    path = f"{found.path.rstrip('/')}/{name}".rstrip("/")
    if scheme == "file":
        return Dataset("file", path)
    return Dataset(f"{scheme}://{found.netloc}", path.lstrip("/") if scheme == "s3" else path)


@contextmanager
def recorded(job: str, inputs: Sequence[Dataset], outputs: Sequence[Dataset]) -> Iterator[Run]:
    """Send events of the block's begin and end where OpenLineage's variables are set.

    A catalogue that does not answer is reported, and no error. Raises click.ClickException if the
    package is missing.
    """
    run = Run()
    if not config.lineage_configured():
        yield run
        return
    if find_spec("openlineage") is None:
        raise click.ClickException(
            "OpenLineage's variables are set: pip install openlineage-python, or unset them"
        )
    events = _Events(job, inputs, outputs)
    events.send("START")
    try:
        yield run
    except BaseException as error:
        state = "FAIL" if isinstance(error, Exception) else "ABORT"
        events.send(state, error=str(error) or type(error).__name__)
        raise
    events.send("COMPLETE", rows=run.rows)


class _Events:
    def __init__(self, job: str, inputs: Sequence[Dataset], outputs: Sequence[Dataset]) -> None:
        from openlineage.client import event_v2  # noqa: PLC0415 - not required.
        from openlineage.client.uuid import generate_new_uuid  # noqa: PLC0415

        self._client: Any = None
        self._job = event_v2.Job(_NAMESPACE, job)
        self._id = str(generate_new_uuid())
        self._inputs = [event_v2.InputDataset(*each) for each in inputs]
        self._outputs = outputs

    def send(self, state: str, *, rows: int | None = None, error: str | None = None) -> None:
        from openlineage.client import OpenLineageClient, event_v2, facet_v2  # noqa: PLC0415

        statistics: dict[str, Any] = {}
        if rows is not None:
            statistics["outputStatistics"] = (
                facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                    rowCount=rows
                )
            )
        failure: dict[str, Any] = {}
        if error is not None:
            failure["errorMessage"] = facet_v2.error_message_run.ErrorMessageRunFacet(
                message=error.splitlines()[0], programmingLanguage="python"
            )
        event = event_v2.RunEvent(
            eventTime=datetime.now(UTC).isoformat(),  # noqa: TID251 - what other programs' events have.
            producer=_PRODUCER,
            run=event_v2.Run(self._id, facets=failure),
            job=self._job,
            eventType=event_v2.RunState[state],
            inputs=self._inputs,
            outputs=[
                event_v2.OutputDataset(*each, outputFacets=statistics) for each in self._outputs
            ],
        )
        try:
            self._client = self._client or OpenLineageClient()
            self._client.emit(event)
        except Exception as failed:  # noqa: BLE001 - of any transport.
            click.echo(visible(f"OpenLineage's event was not sent: {failed}"), err=True)
