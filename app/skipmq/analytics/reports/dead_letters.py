"""What the messages that end as dead letters have in common."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from skipmq.analytics.reports.measures import QUEUE, in_order, is_outcome

# Causes shown of a queue.
_MOST = 50
# Dead letters that a cause has at least: one has everything in common with itself.
_FEWEST = 2
_ATTRIBUTES = "map<string, struct<DataType: string, StringValue: string>>"
# What a type stands after, which every engine of regular expressions has.
_BEFORE = r"(^|: |<)"


def body_shape(body: str = "body") -> Column:
    """Return the shape of a JSON body, as `object<id: number, tags: array<string>>`.

    `not JSON` for other text; null where no body was kept (the queue's HistoryMode is not full).
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
        shape = fn.regexp_replace(shape, _BEFORE + types, f"$1{word}")
    return fn.when(fn.col(body).isNotNull(), fn.coalesce(shape, fn.lit("not JSON")))


def _facts() -> Column:
    """Return what is known of a message, as an array of (kind, cause)."""

    def fact(kind: str, cause: Column) -> Column:
        return fn.struct(fn.lit(kind).alias("kind"), cause.alias("cause"))

    attributes = fn.transform(
        fn.map_entries(fn.from_json("attributes", _ATTRIBUTES)),
        lambda entry: fact(
            "attribute", fn.concat(entry["key"], fn.lit(" = "), entry["value"]["StringValue"])
        ),
    )
    known = fn.concat(
        fn.array(
            fact("body shape", body_shape()),
            fact("sender", fn.col("sender")),
            fact("group", fn.col("group_id")),
        ),
        fn.coalesce(attributes, fn.array().cast("array<struct<kind: string, cause: string>>")),
    )
    return fn.filter(known, lambda found: found["cause"].isNotNull())


def dead_letter_causes(history: DataFrame) -> DataFrame:
    """Give what goes with being dead-lettered, by queue: body shapes, attributes, senders, groups.

    Columns: the queue, `kind`, `cause`, `dead_lettered`, `settled` (all messages of which it is
    true), `rate` of the two, `queue_rate` (of all messages of the queue), `lift` (how many times as
    likely), `excess` (dead letters more than the queue's rate explains; causes are in this order,
    the 50 first of each queue, none of a single dead letter), `first_at`, `last_at` and `example`,
    a message id.
    Bodies and attributes are there where the queue's HistoryMode is full.
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
        .withColumn("fact", fn.explode(_facts()))
        .groupBy(*QUEUE, "queue_rate", "fact.kind", "fact.cause")
        .agg(
            fn.count_if(dead).alias("dead_lettered"),
            fn.count("*").alias("settled"),
            fn.min(fn.when(dead, fn.col("settled_at"))).alias("first_at"),
            fn.max(fn.when(dead, fn.col("settled_at"))).alias("last_at"),
            fn.max_by(fn.col("message_id"), fn.when(dead, fn.col("settled_at"))).alias("example"),
        )
        .where(fn.col("dead_lettered") >= _FEWEST)
        .withColumn("rate", fn.col("dead_lettered") / fn.col("settled"))
        .withColumn("lift", fn.col("rate") / fn.col("queue_rate"))
        .withColumn("excess", fn.col("dead_lettered") - fn.col("settled") * fn.col("queue_rate"))
    )
    place = fn.row_number().over(
        Window.partitionBy(*QUEUE).orderBy(fn.desc("excess"), "kind", "cause")
    )
    return (
        counted.withColumn("place", place)
        .where(fn.col("place") <= _MOST)
        .transform(in_order, *QUEUE, "place")
        .select(
            *QUEUE,
            *("kind", "cause", "dead_lettered", "settled", "rate", "queue_rate", "lift"),
            *("excess", "first_at", "last_at", "example"),
        )
    )
