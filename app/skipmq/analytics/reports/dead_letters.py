"""Common properties of dead-lettered messages."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from skipmq.analytics.reports.measures import QUEUE, in_order, is_outcome

# Maximum number of causes of a queue.
_LIMIT = 50
# Minimum number of dead letters of a cause: a single one has no properties in common.
_MINIMUM_DEAD_LETTERS = 2
_ATTRIBUTES = "map<string, struct<DataType: string, StringValue: string>>"
# Text before the name of a type; not a lookbehind, which DuckDB's regular expressions lack.
_PREFIX = r"(^|: |<)"


def body_shape(body: str = "body") -> Column:
    """Return the shape of a JSON body, such as `object<id: number, tags: array<string>>`.

    `not JSON` for other text; null without a body (the queue's HistoryMode is not full).
    """
    shape = fn.schema_of_variant(fn.try_parse_json(fn.col(body)))
    for types, word in (
        (r"(?:BIGINT|DOUBLE|FLOAT|DECIMAL\(\d+,\s*\d+\))", "number"),
        ("STRING", "string"),
        ("BOOLEAN", "boolean"),
        ("VOID", "null"),
        ("OBJECT", "object"),
        ("ARRAY", "array"),
        ("VARIANT", "mixed"),
    ):
        shape = fn.regexp_replace(shape, _PREFIX + types, f"$1{word}")
    return fn.when(fn.col(body).isNotNull(), fn.coalesce(shape, fn.lit("not JSON")))


def _properties() -> Column:
    """Return the properties of a message as an array of (kind, cause)."""

    def pair(kind: str, cause: Column) -> Column:
        return fn.struct(fn.lit(kind).alias("kind"), cause.alias("cause"))

    attributes = fn.transform(
        fn.map_entries(fn.from_json("attributes", _ATTRIBUTES)),
        lambda entry: pair(
            "attribute", fn.concat(entry["key"], fn.lit(" = "), entry["value"]["StringValue"])
        ),
    )
    pairs = fn.concat(
        fn.array(
            pair("body shape", body_shape()),
            pair("sender", fn.col("sender")),
            pair("group", fn.col("group_id")),
        ),
        fn.coalesce(attributes, fn.array().cast("array<struct<kind: string, cause: string>>")),
    )
    return fn.filter(pairs, lambda each: each["cause"].isNotNull())


def dead_letter_causes(history: DataFrame) -> DataFrame:
    """Return body shapes, attributes, senders and groups that dead letters of a queue share.

    Columns: the queue, `kind`, `cause`, `dead_lettered`, `settled` (all messages with the
    property), `rate` (their quotient), `queue_rate` (of all messages of the queue), `lift` (rate by
    queue_rate), `excess` (dead letters beyond the queue's rate), `first_at`, `last_at` and
    `example`, a message ID. Of each queue, the 50 causes with the highest excess are returned that
    have at least two dead letters. Bodies and attributes need the HistoryMode full.
    """
    dead = is_outcome("dead-lettered")
    settled = history.where(fn.col("settled_at").isNotNull())
    rates = (
        settled.groupBy(*QUEUE)
        .agg((fn.count_if(dead) / fn.count("*")).alias("queue_rate"))
        .where(fn.col("queue_rate") > 0)
    )
    counted = (
        settled.join(fn.broadcast(rates), QUEUE)
        .withColumn("property", fn.explode(_properties()))
        .groupBy(*QUEUE, "queue_rate", "property.kind", "property.cause")
        .agg(
            fn.count_if(dead).alias("dead_lettered"),
            fn.count("*").alias("settled"),
            fn.min(fn.when(dead, fn.col("settled_at"))).alias("first_at"),
            fn.max(fn.when(dead, fn.col("settled_at"))).alias("last_at"),
            fn.max_by(fn.col("message_id"), fn.when(dead, fn.col("settled_at"))).alias("example"),
        )
        .where(fn.col("dead_lettered") >= _MINIMUM_DEAD_LETTERS)
        .withColumn("rate", fn.col("dead_lettered") / fn.col("settled"))
        .withColumn("lift", fn.col("rate") / fn.col("queue_rate"))
        .withColumn("excess", fn.col("dead_lettered") - fn.col("settled") * fn.col("queue_rate"))
    )
    rank = fn.row_number().over(
        Window.partitionBy(*QUEUE).orderBy(fn.desc("excess"), "kind", "cause")
    )
    return (
        counted.withColumn("rank", rank)
        .where(fn.col("rank") <= _LIMIT)
        .transform(in_order, *QUEUE, "rank")
        .select(
            *QUEUE,
            *("kind", "cause", "dead_lettered", "settled", "rate", "queue_rate", "lift"),
            *("excess", "first_at", "last_at", "example"),
        )
    )
