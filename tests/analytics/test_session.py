"""The Spark session as the settings make it."""

from pyspark import TaskContext
from pyspark.sql import SparkSession


def test_task_that_is_cancelled_is_tried_again_on_this_machine_too(spark: SparkSession) -> None:
    def cancelled_once(number: int) -> int:
        task = TaskContext.get()
        assert task is not None
        if task.attemptNumber() == 0:
            raise RuntimeError("canceling statement due to conflict with recovery")
        return number

    rows = spark.sparkContext.parallelize([1, 2], 2)

    assert rows.map(cancelled_once).collect() == [1, 2]
