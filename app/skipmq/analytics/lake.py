"""The lake: the history as Parquet by day and queue, and a manifest that says what belongs to it.

    LAKE/history/day=2026-11-21/queue=orders/0000000007-0.parquet
    LAKE/_manifest/0000000007.json

An entry of the manifest adds files and takes others out; it is there in whole or not at all, and what
the lake holds is what all entries together say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics.columns import HISTORY
from skipmq.analytics.storage import Storage

DATA, MANIFEST = "history", "_manifest"


class LakeError(Exception):
    """The lake cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file of the lake: where under DATA, what is in it, and how big it is in bytes.

    `ids` is the sum of the ids: with the number of rows it proves that they are those of the
    database. `first` and `last` are the lowest and the highest xid.
    """

    path: str
    day: date
    queue: str
    rows: int
    ids: int
    first: int
    last: int
    size: int


class Lake:
    """A lake as its manifest has it when it is opened."""

    def __init__(self, spark: SparkSession, storage: Storage, files: dict[str, File]) -> None:
        self.spark = spark
        self.storage = storage
        self.files = files

    @classmethod
    def open(cls, spark: SparkSession, path: str) -> Self:
        """Open the lake at a path that Spark understands; raise LakeError when there is none."""
        raise NotImplementedError

    def frame(self, wanted: Callable[[File], Any] = lambda _: True) -> DataFrame:
        """Return the rows of the files that are wanted, with the columns of `columns.HISTORY`."""
        raise NotImplementedError

    def erase(self, condition: str, *, reason: str) -> int:
        """Take the rows that fulfil an SQL condition out of the lake's files; return how many.

        The files that had them are written anew and the old ones deleted when it returns; the
        manifest keeps their number and the reason. Killed at any moment it has done all or nothing.
        """
        raise NotImplementedError
