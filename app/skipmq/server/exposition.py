"""Exposition of a node's metrics in the text formats of Prometheus and OpenMetrics."""

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

from skipmq import release
from skipmq.broker.statistics import QueueStatistics
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
# Named as in CloudWatch if they mean the same. Source: Amazon SQS Developer Guide, "Available
# CloudWatch metrics for Amazon SQS".
_QUEUE_GAUGES = (
    ("approximate_number_of_messages_visible", "Messages that can be received", "visible"),
    ("approximate_number_of_messages_not_visible", "Messages in flight", "in_flight"),
    ("approximate_number_of_messages_delayed", "Messages that are delayed", "delayed"),
    (
        "oldest_message_age_seconds",
        "Age of the oldest message that is visible or in flight, 0 if there is none",
        "oldest",
    ),
    (
        "oldest_message_expires_in_seconds",
        "Time until the oldest message that is visible or in flight expires, if there is one",
        "expires_in",
    ),
    (
        "repeated_messages",
        "Messages among the 100 oldest that were received five times or more, if the oldest is"
        " older than ten minutes",
        "repeated",
    ),
    ("paused", "1 if receives are paused, 0 otherwise", "paused"),
    ("paused_groups", "Paused groups of the queue", "paused_groups"),
    (
        "held",
        "1 if the oldest messages wait for a paused group or a limit that is reached, 0 otherwise",
        "held",
    ),
    ("dead_letters", "1 if a redrive policy names the queue, 0 otherwise", "dead_letters"),
)
_QUEUE_COUNTERS = (
    ("number_of_messages_sent", "Messages sent to the queue", "sent"),
    ("sent_message_size_bytes", "Bytes of the bodies of messages sent to the queue", "bytes_sent"),
    ("number_of_messages_received", "Messages received, counting each delivery", "received"),
    ("number_of_empty_receives", "Receives that returned no message", "empty_receives"),
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
    """Return a node's metrics in the format that the client accepts, and their content type.

    `others` sums up the queues that have no metrics of their own; without it they are omitted.
    """
    families = [*_process_metrics(processes), *_queue_metrics(queues, others)]

    class Collected:
        def collect(self) -> Iterable[Metric]:
            return families

    registry = CollectorRegistry()
    registry.register(Collected())
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _process_metrics(processes: Sequence[Published]) -> Iterator[Metric]:
    alive = [snapshot for snapshot, is_alive in processes if is_alive]
    for name, definition in COUNTERS.items():
        every = (snapshot.counters.get(name, []) for snapshot, _ in processes)
        yield _merged(CounterMetricFamily, definition, every)
    for name, definition in GAUGES.items():
        every = (snapshot.gauges.get(name, []) for snapshot in alive)
        yield _merged(GaugeMetricFamily, definition, every)
    for name, definition in HISTOGRAMS.items():
        yield _histogram(name, definition, [snapshot for snapshot, _ in processes])
    yield GaugeMetricFamily(
        "skipmq_metrics_age_seconds",
        "Age of the least recently published metrics of a running process",
        value=max((time.monotonic() - snapshot.at for snapshot in alive), default=0.0),
    )
    build = GaugeMetricFamily(
        "skipmq_build_info", "The node's release, always 1", labels=["version", "python"]
    )
    build.add_metric([release.VERSION, platform.python_version()], 1.0)
    yield build


def _merged(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    definition: Definition,
    every: Iterable[Series],
) -> Metric:
    family = kind(definition.name, definition.about, labels=definition.labels)
    values: dict[tuple[str, ...], list[float]] = {}
    for series in every:
        for labels, value in series:
            values.setdefault(tuple(labels), []).append(value)
    for labels, each in values.items():
        family.add_metric([*labels], _MERGES[definition.merge](each))
    return family


def _histogram(
    name: str, definition: Definition, snapshots: Sequence[Snapshot]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(definition.name, definition.about, labels=definition.labels)
    merged: dict[tuple[str, ...], Histogram] = {}
    for snapshot in snapshots:
        for labels, each in snapshot.histograms.get(name, []):
            total = merged.setdefault(tuple(labels), Histogram([0] * len(each.counts)))
            total.counts = [a + b for a, b in zip(total.counts, each.counts, strict=True)]
            total.total += each.total
            total.exemplars |= each.exemplars
    for labels, histogram in merged.items():
        family.add_metric(labels, _buckets(histogram, definition), histogram.total)
    return family


def _buckets(
    histogram: Histogram, definition: Definition
) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    """Return the upper bounds and cumulative counts of the buckets, with exemplars."""
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    cumulative = 0
    for bucket, bound in enumerate((*definition.buckets, float("inf"))):
        cumulative += histogram.counts[bucket]
        text = "+Inf" if bound == float("inf") else str(bound)
        exemplar = histogram.exemplars.get(bucket)
        if exemplar is None:
            buckets.append((text, cumulative))
        else:
            labels = {"request_id": exemplar.request_id}
            buckets.append((text, cumulative, Exemplar(labels, exemplar.value)))
    return buckets


def _queue_metrics(
    queues: Sequence[QueueStatistics], others: QueueStatistics | None
) -> Iterator[Metric]:
    for name, about, field in _QUEUE_GAUGES:
        gauge = GaugeMetricFamily(f"skipmq_queue_{name}", about, labels=_QUEUE)
        for queue in queues:
            value = getattr(queue, field)
            if value is not None or field == "oldest":
                gauge.add_metric(_labels(queue), value or 0)
        yield gauge
    for name, about, field in _QUEUE_COUNTERS:
        counter = CounterMetricFamily(f"skipmq_queue_{name}", about, labels=_QUEUE)
        for queue in queues:
            counter.add_metric(_labels(queue), getattr(queue, field))
        yield counter
    if others is not None:
        # Gauges, because the set of these queues changes and a total over it can decrease.
        for name, about, value in (
            ("queues", "Queues that have no metrics of their own", others.queues),
            ("queues_messages", "Messages in queues without metrics", others.messages),
            (
                "queues_send_rate",
                "Messages sent a second to queues without metrics",
                (others.sent_per_minute or 0) / 60,
            ),
            (
                "queues_delete_rate",
                "Messages deleted a second from queues without metrics",
                (others.deleted_per_minute or 0) / 60,
            ),
        ):
            yield GaugeMetricFamily(f"skipmq_other_{name}", about, value=value)


def _labels(queue: QueueStatistics) -> list[str]:
    return [queue.account or "", queue.region or "", queue.queue or ""]
