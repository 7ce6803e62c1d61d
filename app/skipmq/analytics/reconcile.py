"""Reconciliation of acknowledged sends with stored, delivered and settled messages."""

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from skipmq.analytics.errors import ReconcileError

_LOG = "message_id string, queue string, sent_at string, unreadable string"
FATES = (
    *("waiting", "deleted", "expired", "purged", "redriven", "erased", "unknown", "lost"),
    "duplicated",
)
FAILURES = ("lost", "duplicated")


def sends(spark: SparkSession, path: str) -> DataFrame:
    """Read a client's log of acknowledged sends: JSON lines of message_id, queue and sent_at.

    The queue is a name or URL; sent_at is ISO 8601 (UTC without an offset) or seconds since 1970.
    Columns: `message_id`, `queue`, `sent_at`. Raises ReconcileError for malformed lines.
    """
    lines = spark.read.schema(_LOG).option("columnNameOfCorruptRecord", "unreadable").json(path)
    since_1970 = fn.col("sent_at").try_cast("double")
    moment = fn.coalesce(fn.timestamp_seconds(since_1970), fn.try_to_timestamp("sent_at"))
    log = lines.select(
        "message_id",
        fn.element_at(fn.split("queue", "/"), -1).alias("queue"),
        moment.alias("sent_at"),
    ).cache()
    malformed = log.where("message_id is null or queue is null or sent_at is null").count()
    if malformed:
        raise ReconcileError(
            f"{malformed} lines of {path} are not of the form"
            ' {"message_id": "…", "queue": "orders", "sent_at": "2026-11-21T12:00:00Z"}'
        )
    return log


def fates(  # noqa: PLR0913 - the parameters of a reconciliation.
    messages: DataFrame,
    sent: DataFrame | None,
    *,
    now: datetime,
    late: float,
    history_since: datetime | None = None,
    unkept: Sequence[str] = (),
    erased: DataFrame | None = None,
) -> DataFrame:
    """Return the fate of each message.

    `messages` are the rows of the history and of live messages (`settled_at` is null); `sent` is
    the log, without which all stored messages are checked. Columns: `queue` (the first one),
    `message_id`, `sent_at`, `acknowledged` (its number of lines in the log), `fate` (one of FATES),
    `late` (not received within `late` seconds of its send), `redelivered`.

    lost: not stored, or dead-lettered and then not stored. unknown: the same for messages outside
    of the history, sent before `history_since` or to queues without history (`unkept`). duplicated:
    settled twice, or settled and still live; being dead-lettered does not count as settled.
    redriven: moved to a queue as a new message, whose ID the log does not have. erased: not stored,
    and one of the messages `erased` on request.
    """
    live = fn.col("settled_at").isNull()
    end = ~live & (fn.col("outcome") != "dead-lettered")
    stored = messages.groupBy("message_id").agg(
        fn.min_by("queue", fn.coalesce("settled_at", fn.lit(now))).alias("stored_queue"),
        fn.min("sent_at").alias("stored_at"),
        fn.count_if(live).alias("live"),
        fn.count_if(end).alias("ends"),
        fn.max_by(fn.when(end, fn.col("outcome")), fn.when(end, fn.col("settled_at"))).alias(
            "outcome"
        ),
        fn.min("first_received_at").alias("first_received_at"),
        (fn.max("receive_count") > 1).alias("redelivered"),
    )
    if sent is None:
        joined = stored.withColumns(
            {"queue": fn.lit(None), "logged_at": fn.lit(None), "acknowledged": fn.lit(0)}
        )
    else:
        log = sent.groupBy("message_id").agg(
            fn.min("queue").alias("queue"),
            fn.min("sent_at").alias("logged_at"),
            fn.count("*").alias("acknowledged"),
        )
        joined = stored.join(log, "message_id", "full")
    gone = fn.lit(False)  # noqa: FBT003 - a SQL literal.
    if erased is not None:
        marked = erased.select("message_id", fn.lit(True).alias("erased"))  # noqa: FBT003
        joined = joined.join(marked.distinct(), "message_id", "left")
        gone = fn.col("erased")
    at = fn.coalesce("stored_at", "logged_at")
    queue = fn.coalesce("stored_queue", "queue")
    has_no_history = queue.isin(list(unkept)) | (
        (at < fn.lit(history_since)) if history_since else fn.lit(False)  # noqa: FBT003 - a SQL literal.
    )
    fate = (
        fn.when(fn.coalesce(fn.col("live") + fn.col("ends"), fn.lit(0)) > 1, "duplicated")
        .when(fn.col("live") == 1, "waiting")
        .when(fn.col("ends") == 1, fn.col("outcome"))
        .when(gone, "erased")
        .when(has_no_history, "unknown")
        .otherwise("lost")
    )
    first = fn.coalesce("first_received_at", fn.when(fn.col("live") > 0, fn.lit(now)))
    wait = first.cast("double") - at.cast("double")
    return joined.select(
        queue.alias("queue"),
        "message_id",
        at.alias("sent_at"),
        fn.coalesce("acknowledged", fn.lit(0)).alias("acknowledged"),
        fate.alias("fate"),
        fn.coalesce(wait > late, fn.lit(False)).alias("late"),  # noqa: FBT003 - a SQL literal.
        fn.coalesce("redelivered", fn.lit(False)).alias("redelivered"),  # noqa: FBT003
    )


def totals(fates: DataFrame) -> DataFrame:
    """Count fates by queue.

    Columns: `queue`, `messages`, `acknowledged` (messages in the log), `repeated` (in the log more
    than once), `unacknowledged` (stored, but not in the log), one for each of FATES, `late`,
    `redelivered`.
    """
    return (
        fates.groupBy("queue")
        .agg(
            fn.count("*").alias("messages"),
            fn.count_if(fn.col("acknowledged") > 0).alias("acknowledged"),
            fn.count_if(fn.col("acknowledged") > 1).alias("repeated"),
            fn.count_if(fn.col("acknowledged") == 0).alias("unacknowledged"),
            *(fn.count_if(fn.col("fate") == fate).alias(fate) for fate in FATES),
            fn.count_if(fn.col("late")).alias("late"),
            fn.count_if(fn.col("redelivered")).alias("redelivered"),
        )
        .orderBy("queue")
    )
