"""The Spark session, made from the settings."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from skipmq import config
from skipmq.settings import Settings

# The driver for JDBC: Maven's, unless Debian's package libpostgresql-jdbc-java has one here.
DRIVER = "org.postgresql:postgresql:42.7.8"
DEBIAN = Path("/usr/share/java/postgresql.jar")
# How often a task is tried, as on a cluster of Spark.
TRIES = 4
_LOGS = Path(__file__).with_name("log4j2.properties").as_uri()
# A command lives for a minute or two, in which Java would compile for longer than that saves: its
# second compiler takes what has run ten times as often as usual. Of the processor time of a report
# on 10,000, 0.5 and 5 million rows that left 0.77, 0.81 and 0.75.
_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)


def start(settings: Settings, name: str = "skipmq analytics") -> SparkSession:
    """Return the session of this process, with the driver for JDBC; times are UTC.

    Under `spark-submit` the master and the driver are those of its command line.
    """
    config.prepare_spark(settings.spark_master)
    builder = (
        SparkSession.builder.appName(name)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.shuffle.partitions", "8")
        # A body that has a key twice has a shape, too; the last one counts.
        .config("spark.sql.variant.allowDuplicateKeys", "true")
    )
    if not config.submitted():
        builder = (
            builder.master(_patient(settings.spark_master))
            .config(
                "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGS} {_COMPILER}"
            )
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
        )
        for key, value in _driver(settings.spark_jars).items():
            builder = builder.config(key, value)
    return builder.getOrCreate()


def _patient(master: str) -> str:
    """Return a master that tries tasks again on this machine too: a standby may cancel a read."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return f"local[{local[1] or 1},{TRIES}]" if local else master


def _driver(wanted: str) -> dict[str, str]:
    """Return how Spark gets the driver: jars on disk, or coordinates of Maven with colons."""
    if not wanted and DEBIAN.exists():
        wanted = str(DEBIAN)
    if not wanted or (":" in wanted and not wanted.endswith(".jar")):
        return {"spark.jars.packages": wanted or DRIVER}
    return {"spark.jars": wanted}
