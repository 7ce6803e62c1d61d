"""Whether every send that was acknowledged is accounted for: once, and in time."""

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from skipmq.analytics.errors import AuditError

_LOG = "message_id string, queue string, sent_at string, unreadable string"
# What each message comes to; those of the second line are what an audit searches for.
FATES = ("waiting", "deleted", "expired", "purged", "redriven", "unknown", "lost", "duplicated")
WRONG = ("lost", "duplicated")


def sends(spark: SparkSession, path: str) -> DataFrame:
    """Read a client's log of acknowledged sends: JSON lines of message_id, queue and sent_at.

    The queue is its name or URL; sent_at is ISO 8601 (UTC unless it says otherwise) or seconds
    since 1970. Columns: `message_id`, `queue`, `sent_at`. Raises AuditError for lines that are
    not so.
    """
    found = spark.read.schema(_LOG).option("columnNameOfCorruptRecord", "unreadable").json(path)
    since_1970 = fn.col("sent_at").try_cast("double")
    moment = fn.coalesce(fn.timestamp_seconds(since_1970), fn.try_to_timestamp("sent_at"))
    log = found.select(
        "message_id",
        fn.element_at(fn.split("queue", "/"), -1).alias("queue"),
        moment.alias("sent_at"),
    ).cache()
    bad = log.where("message_id is null or queue is null or sent_at is null").count()
    if bad:
        raise AuditError(
            f"{bad} lines of {path} are not of the form"
            ' {"message_id": "…", "queue": "orders", "sent_at": "2026-11-21T12:00:00Z"}'
        )
    return log


def fates(  # noqa: PLR0913 - three have defaults.
    messages: DataFrame,
    sent: DataFrame | None,
    *,
    now: datetime,
    late: float,
    known_since: datetime | None = None,
    unkept: Sequence[str] = (),
) -> DataFrame:
    """Say of each message what came of it.

    `messages` are the rows of the history and of live messages (`settled_at` is null); `sent` is
    the log, without which all that was ever stored is audited. Columns: `queue` (the first one),
    `message_id`, `sent_at`, `acknowledged` (how often the log has it), `fate` (one of FATES),
    `late` (first received more than `late` seconds after its send, or not yet after as long),
    `redelivered`.

    lost: nowhere, or last seen when it was dead-lettered. unknown: the same where the history
    cannot know: sent before `known_since`, or in queues that keep none (`unkept`). duplicated:
    settled twice, or settled and there still; being dead-lettered is not an end. redriven: it goes
    on as another message, under an id that the log does not have.
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
    at = fn.coalesce("stored_at", "logged_at")
    queue = fn.coalesce("stored_queue", "queue")
    blind = queue.isin(list(unkept)) | (
        (at < fn.lit(known_since)) if known_since else fn.lit(False)  # noqa: FBT003 - a SQL literal.
    )
    fate = (
        fn.when(fn.coalesce(fn.col("live") + fn.col("ends"), fn.lit(0)) > 1, "duplicated")
        .when(fn.col("live") == 1, "waiting")
        .when(fn.col("ends") == 1, fn.col("outcome"))
        .when(blind, "unknown")
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


def totals(found: DataFrame) -> DataFrame:
    """Count fates by queue.

    Columns: `queue`, `messages`, `acknowledged` (messages in the log), `repeated` (those that it
    has more than once), `unacknowledged` (stored though the log lacks them), one for each of FATES,
    `late`, `redelivered`.
    """
    return (
        found.groupBy("queue")
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
