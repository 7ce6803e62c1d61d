"""The metrics of all processes of a node, in the text formats of Prometheus and OpenMetrics."""

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.samples import Exemplar

import skipmq
from skipmq.model import QueueStatistics
from skipmq.telemetry.metrics import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    Definition,
    Histogram,
    Published,
    Series,
    Snapshot,
)

_MERGES: dict[str, Callable[[Iterable[float]], float]] = {"sum": sum, "min": min, "max": max}
_QUEUE = ("account", "region", "queue")
# Under CloudWatch's names where they mean the same. Source: Amazon SQS Developer Guide, "Available
# CloudWatch metrics for Amazon SQS".
_OF_QUEUE = (
    ("approximate_number_of_messages_visible", "Messages that can be received", "visible"),
    ("approximate_number_of_messages_not_visible", "Messages in flight", "in_flight"),
    ("approximate_number_of_messages_delayed", "Messages that are delayed", "delayed"),
    (
        "approximate_age_of_oldest_message_seconds",
        "Age of the visible message that is due first, 0 without one",
        "oldest",
    ),
)
_TOTALS_OF_QUEUE = (
    ("number_of_messages_sent", "Messages sent to the queue", "sent"),
    ("sent_message_size_bytes", "Bytes of the bodies of messages sent to the queue", "bytes_sent"),
    ("number_of_messages_received", "Messages received, each as often as it was", "received"),
    ("number_of_empty_receives", "Receives that gave no message", "empty_receives"),
    ("number_of_messages_deleted", "Messages deleted by consumers", "deleted"),
    ("number_of_messages_expired", "Messages past their retention period", "expired"),
    (
        "number_of_messages_dead_lettered",
        "Messages moved to the dead-letter queue",
        "dead_lettered",
    ),
    ("number_of_messages_redriven", "Messages moved from the queue by a move task", "redriven"),
    (
        "number_of_messages_moved_in",
        "Messages moved to the queue from another, by its redrive policy or a move task",
        "moved_in",
    ),
)


def text(
    accept: str,
    processes: Sequence[Published],
    queues: Sequence[QueueStatistics] = (),
    others: QueueStatistics | None = None,
) -> tuple[bytes, str]:
    """Return the metrics of a node in the format that a client accepts, and its content type.

    The statistics of queues are left out where they are not known.
    """
    families = [*_of_processes(processes), *_of_queues(queues, others)]

    class Collected:
        def collect(self) -> Iterable[Metric]:
            return families

    registry = CollectorRegistry()
    registry.register(Collected())
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _of_processes(processes: Sequence[Published]) -> Iterator[Metric]:
    alive = [snapshot for snapshot, is_alive in processes if is_alive]
    for name, definition in COUNTERS.items():
        family = CounterMetricFamily(definition.name, definition.about, labels=definition.labels)
        every = (snapshot.counters.get(name, []) for snapshot, _ in processes)
        for labels, value in _merged(every, definition):
            family.add_metric(labels, value)
        yield family
    for name, definition in GAUGES.items():
        gauge = GaugeMetricFamily(definition.name, definition.about, labels=definition.labels)
        every = (snapshot.gauges.get(name, []) for snapshot in alive)
        for labels, value in _merged(every, definition):
            gauge.add_metric(labels, value)
        yield gauge
    for name, definition in HISTOGRAMS.items():
        yield _histogram(name, definition, [snapshot for snapshot, _ in processes])
    yield GaugeMetricFamily(
        "skipmq_metrics_age_seconds",
        "How old the numbers are of the process that published its own least recently",
        value=max((time.monotonic() - snapshot.at for snapshot in alive), default=0.0),
    )
    build = GaugeMetricFamily(
        "skipmq_build_info", "The node's release, always 1", labels=["version", "python"]
    )
    build.add_metric([skipmq.__version__, platform.python_version()], 1.0)
    yield build


def _merged(every: Iterable[Series], definition: Definition) -> Iterator[tuple[list[str], float]]:
    values: dict[tuple[str, ...], list[float]] = {}
    for series in every:
        for labels, value in series:
            values.setdefault(tuple(labels), []).append(value)
    for labels, of_processes in values.items():
        yield [*labels], _MERGES[definition.merge](of_processes)


def _histogram(
    name: str, definition: Definition, snapshots: Sequence[Snapshot]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(definition.name, definition.about, labels=definition.labels)
    merged: dict[tuple[str, ...], Histogram] = {}
    for snapshot in snapshots:
        for labels, each in snapshot.histograms.get(name, []):
            known = merged.setdefault(tuple(labels), Histogram([0] * len(each.counts)))
            known.counts = [a + b for a, b in zip(known.counts, each.counts, strict=True)]
            known.total += each.total
            known.exemplars |= each.exemplars
    for labels, found in merged.items():
        family.add_metric(labels, _buckets(found, definition), found.total)
    return family


def _buckets(
    found: Histogram, definition: Definition
) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    """Return how many values each bucket and all before it have, with an example of its own."""
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    below = 0
    for place, end in enumerate((*definition.buckets, float("inf"))):
        below += found.counts[place]
        text = "+Inf" if end == float("inf") else str(end)
        example = found.exemplars.get(place)
        if example is None:
            buckets.append((text, below))
        else:
            labels = {"request_id": example.request_id}
            buckets.append((text, below, Exemplar(labels, example.value)))
    return buckets


def _of_queues(
    queues: Sequence[QueueStatistics], others: QueueStatistics | None
) -> Iterator[Metric]:
    for name, about, field in _OF_QUEUE:
        gauge = GaugeMetricFamily(f"skipmq_queue_{name}", about, labels=_QUEUE)
        for queue in queues:
            gauge.add_metric(_labels(queue), getattr(queue, field) or 0)
        yield gauge
    for name, about, field in _TOTALS_OF_QUEUE:
        counter = CounterMetricFamily(f"skipmq_queue_{name}", about, labels=_QUEUE)
        for queue in queues:
            counter.add_metric(_labels(queue), getattr(queue, field))
        yield counter
    if others is not None:
        # Totals of changing sets of queues would fall and rise: no counters.
        for name, about, value in (
            ("queues", "Queues that have no metrics of their own", others.queues),
            ("queues_messages", "Messages in queues without metrics", others.messages),
            (
                "queues_send_rate",
                "Messages sent a second to queues without metrics",
                others.send_rate,
            ),
            (
                "queues_delete_rate",
                "Messages deleted a second from queues without metrics",
                others.delete_rate,
            ),
        ):
            yield GaugeMetricFamily(f"skipmq_other_{name}", about, value=value)


def _labels(queue: QueueStatistics) -> list[str]:
    return [queue.account or "", queue.region or "", queue.queue or ""]
