# %% [markdown]
# # The history of messages, cell by cell
#
# Editors that support `# %%` run single cells; as a script it runs from top to bottom:
#
#     SKIPMQ_ARCHIVE=/srv/lake python -m skipmq.analytics.examples.explore
"""Explore the lake in SKIPMQ_ARCHIVE."""

# %%
from pyspark.sql import functions as fn

from skipmq import config
from skipmq.analytics import frames, reports
from skipmq.analytics.spark import session

settings = config.load().settings
spark = session.start(settings, "explore")
history = frames.lake(spark, settings.archive).persist()

# %% [markdown]
# The history has a row for each settled message.

# %%
history.groupBy("queue", "outcome").agg(
    fn.count("*").alias("messages"), fn.sum("body_bytes").alias("bytes")
).orderBy("queue", "outcome").show()

# %% [markdown]
# Every report is a function from such a frame to another frame, which can be filtered further.

# %%
worst = reports.latency(history).orderBy(fn.desc_nulls_last("send_to_delete_p99"))
worst.select("queue", "since", "deleted", "send_to_delete_p50", "send_to_delete_p99").show(5)

# %%
reports.redelivery(history).select("queue", "received", "redelivery_rate").show()

# %% [markdown]
# The history has bodies if a queue's `HistoryMode` is `full`; VARIANT makes them queryable.

# %%
shape = fn.schema_of_variant(fn.try_parse_json("body"))
history.groupBy("queue", shape.alias("shape")).count().orderBy(fn.desc("count")).show(truncate=80)

# %%
bodies = history.withColumn("json", fn.try_parse_json("body"))
bodies.select(
    "queue", "message_id", fn.try_variant_get("json", "$.price", "double").alias("price")
).where("price is not null").summary("min", "50%", "max").select("summary", "price").show()
