"""The Spark session, configured by the settings."""

import re
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from skipmq.analytics.spark import environment
from skipmq.config.settings import Settings

# The JDBC driver from Maven, unless Debian's package libpostgresql-jdbc-java is installed.
DRIVER = "org.postgresql:postgresql:42.7.8"
DEBIAN = Path("/usr/share/java/postgresql.jar")
# Attempts of a task, as is the default on a Spark cluster.
ATTEMPTS = 4
_LOGS = Path(__file__).with_name("log4j2.properties").as_uri()
# A command runs for a minute or two, in which Java's second compiler takes more time than it saves:
# raise its thresholds tenfold. That reduced the CPU time of a report on 10,000, 0.5 and 5 million
# rows to 0.77, 0.81 and 0.75 of the default.
_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)


def start(
    settings: Settings,
    name: str = "skipmq analytics",
    configuration: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session of this process, with the JDBC driver and the time zone UTC.

    `configuration` has further settings of Spark. Under `spark-submit` its command line determines
    the master and the driver.
    """
    environment.prepare_spark(settings.spark_master)
    builder = (
        SparkSession.builder.appName(name)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.shuffle.partitions", "8")
        # Accept bodies with duplicate keys; the last value counts.
        .config("spark.sql.variant.allowDuplicateKeys", "true")
    )
    if not environment.submitted():
        builder = (
            builder.master(_with_retries(settings.spark_master))
            .config(
                "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGS} {_COMPILER}"
            )
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
        )
        for key, value in _driver(settings.spark_jars).items():
            builder = builder.config(key, value)
    for key, value in (configuration or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def active() -> SparkSession | None:
    """Return the session that this process has already, if any."""
    return SparkSession.getActiveSession()


def _with_retries(master: str) -> str:
    """Enable task retries for a local master, because a standby may cancel a read."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return f"local[{local[1] or 1},{ATTEMPTS}]" if local else master


def _driver(jars: str) -> dict[str, str]:
    """Return Spark's setting for the driver, given as jar files or Maven coordinates."""
    if not jars and DEBIAN.exists():
        jars = str(DEBIAN)
    if not jars or (":" in jars and not jars.endswith(".jar")):
        return {"spark.jars.packages": jars or DRIVER}
    return {"spark.jars": jars}
