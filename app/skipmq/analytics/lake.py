"""The lake: the history as Parquet by day and queue, and a manifest that says what belongs to it.

    LAKE/history/day=2026-11-21/queue=orders/0000000007-0.parquet
    LAKE/_manifest/0000000007.json

A change is written to _staging, counted, and then moved in. Killed at any moment it has been done
or not: the next writer finishes what was counted and throws the rest away.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from secrets import token_hex
from typing import Self
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from skipmq.analytics import manifest, storage
from skipmq.analytics.columns import HISTORY
from skipmq.analytics.errors import LakeError
from skipmq.analytics.manifest import CHECKPOINT, Entry, File, Kind, State, Window
from skipmq.analytics.storage import Busy, FolderStorage, Storage

DATA, STAGING = "history", "_staging"
_ARROW = to_arrow_schema(HISTORY, timezone="UTC")
# Bytes that a compacted file is to have, about.
BIG = 128 << 20
# Rows of a file, at most.
MOST_ROWS = 5_000_000
# No two rows, or hardly two, have the same in these: a dictionary of them is built in vain.
_DISTINCT = ("settled_at", "sent_at", "first_received_at", "id", "message_id")
_WRITING = {
    "compression": "zstd",
    "maxRecordsPerFile": str(MOST_ROWS),
    **{f"parquet.enable.dictionary#{name}": "false" for name in _DISTINCT},
    # Parquet has checksums of its own; Hadoop's cost a file, and a `chmod`, for each.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


class Lake:
    """A lake as its manifest has it; `open` to read it, `writing` to change it."""

    def __init__(self, spark: SparkSession, store: Storage, state: State) -> None:
        self.spark = spark
        self.storage = store
        self.state = state

    @classmethod
    def open(cls, spark: SparkSession, path: str) -> Self:
        """Open the lake at a path that Spark understands; raise LakeError when there is none."""
        store = storage.opened(spark, path)
        state, begun = manifest.load(store)
        if not state.number and begun is None:
            raise LakeError(f"there is no lake at {path}: `skipmq analytics export --lake {path}`")
        return cls(spark, store, state)

    @classmethod
    @contextmanager
    def writing(cls, spark: SparkSession, path: str | Storage) -> Iterator[Self]:
        """Give the lake at a path, or a new one, to the only writer, what was begun being finished.

        Raises LakeError when somebody else is writing.
        """
        store = storage.opened(spark, path) if isinstance(path, str) else path
        try:
            with store.locked():
                check_shared(spark, store)
                state, begun = manifest.load(store)
                lake = cls(spark, store, state)
                if begun is not None:
                    lake._finish(begun)
                lake._tidy()
                yield lake
        except Busy as error:
            raise LakeError(f"somebody else writes to the lake at {path}: wait for it") from error

    @property
    def files(self) -> Sequence[File]:
        """The files, by day and queue."""
        return sorted(self.state.files.values(), key=lambda file: file.path)

    def frame(self, wanted: Callable[[File], bool] = lambda _: True) -> DataFrame:
        """Return the rows of the files that are wanted, with the columns of `columns.HISTORY`."""
        paths = [f"{self.storage.root}/{DATA}/{file.path}" for file in self.files if wanted(file)]
        if not paths:
            # A table of Arrow's, unlike a list, takes no Python on the executors.
            return self.spark.createDataFrame(_ARROW.empty_table(), HISTORY)
        found = self.spark.read.schema(HISTORY).option("basePath", f"{self.storage.root}/{DATA}")
        return found.parquet(*paths).select(*HISTORY.names)

    def add(self, frame: DataFrame, window: Window, database: str) -> Entry:
        """Add what was settled in a window of transactions; raise LakeError unless it is all."""
        staged = self._stage(frame) if window.rows else None
        return self._commit("export", staged, window=window, database=database)

    def erase(self, condition: str | Column, *, reason: str) -> int:
        """Take the rows that fulfil an SQL condition out of the lake's files; return how many.

        The files that had them are written again and the old ones deleted when it returns; the
        manifest keeps their number and the reason.
        """
        return self._without(condition, "erase", reason=reason)

    def rewind(self, window: Window) -> int:
        """Forget a window and all after it, so that they are exported again; return the rows."""
        return self._without(f.col("xid") >= window.first, "rewind", window=window)

    def total(self, window: Window) -> tuple[int, int, int]:
        """Return what the lake has now of a window: rows, and the sums of ids and of times.

        The times are those of settlement, in microseconds: after a failover ids are given again,
        as numbers of transactions are, and times are not.
        """
        row = (
            self.frame(lambda file: file.last >= window.first and file.first < window.until)
            .where((f.col("xid") >= window.first) & (f.col("xid") < window.until))
            .agg(
                f.count("*").alias("rows"),
                _ids(),
                f.sum(f.unix_micros("settled_at").cast("decimal(38,0)")).alias("times"),
            )
            .collect()[0]
        )
        return row["rows"], int(row["ids"] or 0), int(row["times"] or 0)

    def damage(self, days: Collection[date]) -> dict[str, str]:
        """Return the files of these days that are not as they were written: what is wrong, by path.

        Their sizes are looked at, and how many rows their ends say there are.
        """
        sizes: dict[str, int] = {}
        for folder in {file.path.split("/")[0] for file in self.files if file.day in days}:
            found = self.storage.files(f"{DATA}/{folder}")
            sizes |= {f"{folder}/{path}": size for path, size in found}
        wanted = [file for file in self.files if file.day in days]
        rows = self._rows({file.path for file in wanted if sizes.get(file.path) == file.size})
        damage = {}
        for file in wanted:
            if file.path not in sizes:
                damage[file.path] = "is missing"
            elif sizes[file.path] != file.size:
                damage[file.path] = f"has {sizes[file.path]} bytes of {file.size}"
            elif rows.get(file.path, 0) != file.rows:
                damage[file.path] = f"has {rows.get(file.path, 0)} rows of {file.rows}"
        place = f"{self.storage.root}/{DATA}"
        return {path: f"{place}/{path} {wrong}" for path, wrong in damage.items()}

    def _rows(self, paths: Collection[str]) -> dict[str, int]:
        """Count the rows of files by path; a file that is no Parquet has none."""
        if not paths:
            return {}
        frame = (
            self.spark.read.schema(HISTORY)
            .options(ignoreCorruptFiles="true", ignoreMissingFiles="true")
            .option("basePath", f"{self.storage.root}/{DATA}")
            .parquet(*(f"{self.storage.root}/{DATA}/{path}" for path in sorted(paths)))
        )
        name = f.col("_metadata.file_name").alias("name")
        counted = frame.groupBy("day", "queue", name).agg(f.count("*").alias("rows")).collect()
        rows = {(row["day"], row["queue"], row["name"]): row["rows"] for row in counted}
        files = (self.state.files[path] for path in paths)
        return {
            file.path: rows.get((file.day, file.queue, file.path.rpartition("/")[2]), 0)
            for file in files
        }

    def compact(self, *, before: date, most_files: int = 32, spared: Collection[str] = ()) -> int:
        """Put small files of a queue and day together; return how many files there are fewer.

        Of days before that one all, of others where there are more than `most_files`; not those
        whose paths are `spared`.
        """
        groups: dict[tuple[date, str], list[File]] = {}
        for file in self.files:
            if file.size < BIG // 2 and file.path not in spared:
                groups.setdefault((file.day, file.queue), []).append(file)
        fewer, batch, rows = 0, [], 0
        for (day, _), group in groups.items():
            if len(group) > (1 if day < before else most_files):
                batch += group
                rows += sum(file.rows for file in group)
            if rows > MOST_ROWS:
                fewer += self._join(batch)
                batch, rows = [], 0
        return fewer + (self._join(batch) if batch else 0)

    def _join(self, batch: Sequence[File]) -> int:
        paths = {file.path for file in batch}
        parts = max(1, sum(file.size for file in batch) // BIG)
        together = self.frame(lambda file: file.path in paths)
        # As many tasks as cores, each with whole days of whole queues, or equal parts of a big one.
        together = (
            together.repartition(f.col("day"), f.col("queue"))
            if parts == 1
            else together.repartition(int(parts))
        )
        entry = self._commit("compact", self._stage(together), remove=tuple(paths))
        return len(paths) - len(entry.add)

    def _without(
        self, condition: str | Column, kind: Kind, *, reason: str = "", window: Window | None = None
    ) -> int:
        doomed = f.expr(condition) if isinstance(condition, str) else condition
        doomed = f.coalesce(doomed, f.lit(False))  # noqa: FBT003 - PySpark's own.
        hit = (
            {
                (row["day"], row["queue"], row["name"]): (row["rows"], int(row["ids"]))
                for row in self.frame()
                .where(doomed)
                .groupBy("day", "queue", f.col("_metadata.file_name").alias("name"))
                .agg(f.count("*").alias("rows"), _ids())
                .collect()
            }
            if self.files
            else {}
        )
        if not hit and window is None:
            return 0
        paths = {
            file.path
            for file in self.files
            if (file.day, file.queue, file.path.rpartition("/")[2]) in hit
        }
        left = sum(self.state.files[path].rows for path in paths) - sum(n for n, _ in hit.values())
        rest = self.frame(lambda file: file.path in paths).where(~doomed)
        self._commit(
            kind,
            self._stage(rest) if left else None,
            remove=tuple(sorted(paths)),
            erased=sum(rows for rows, _ in hit.values()),
            erased_ids=sum(ids for _, ids in hit.values()),
            reason=reason,
            window=window,
        )
        return sum(rows for rows, _ in hit.values())

    def _stage(self, frame: DataFrame) -> str:
        """Write a frame to a folder of its own; return its name."""
        name = token_hex(8)
        (
            frame.sortWithinPartitions("day", "queue", "settled_at")
            .write.partitionBy("day", "queue")
            .options(**_WRITING)
            .parquet(f"{self.storage.root}/{STAGING}/{name}")
        )
        return name

    def _count(self, staged: str, number: int) -> dict[str, File]:
        """Return the files of a staged folder by their paths there, with what was read in them."""
        sizes = self.storage.files(f"{STAGING}/{staged}")
        top = f"{self.storage.root}/{STAGING}/{staged}"
        counted = {
            (row["day"], row["queue"], row["name"]): row
            for row in self.spark.read.schema(HISTORY)
            .parquet(top)
            .groupBy("day", "queue", f.col("_metadata.file_name").alias("name"))
            .agg(
                f.count("*").alias("rows"),
                _ids(),
                f.min("xid").alias("first"),
                f.max("xid").alias("last"),
            )
            .collect()
        }
        found = {}
        for place, (path, size) in enumerate(sizes):
            day_folder, queue_folder, name = path.split("/")
            day = date.fromisoformat(day_folder.removeprefix("day="))
            queue = unquote(queue_folder.removeprefix("queue="))
            row = counted.get((day, queue, name))
            if row is None:
                continue
            target = f"{day_folder}/{queue_folder}/{number:010}-{place}.parquet"
            found[path] = File(
                target, day, queue, row["rows"], int(row["ids"]), row["first"], row["last"], size
            )
        return found

    def _commit(  # noqa: PLR0913 - an entry has as many parts.
        self,
        kind: Kind,
        staged: str | None,
        *,
        database: str = "",
        window: Window | None = None,
        remove: tuple[str, ...] = (),
        erased: int = 0,
        erased_ids: int = 0,
        reason: str = "",
    ) -> Entry:
        number = self.state.number + 1
        files = self._count(staged, number) if staged else {}
        entry = Entry(
            number=number,
            kind=kind,
            database=database or self.state.database,
            window=window,
            add=tuple(files.values()),
            remove=remove,
            erased=erased,
            erased_ids=erased_ids,
            reason=reason,
            staged={file.path: f"{STAGING}/{staged}/{path}" for path, file in files.items()},
        )
        self.state.check(entry)
        self.storage.sync(list(entry.staged.values()))
        try:
            self.storage.create(f"{manifest.FOLDER}/{number:010}.intent", entry.to_json())
        except FileExistsError as error:
            raise LakeError("somebody else has written to the lake meanwhile") from error
        self._finish(entry)
        return entry

    def _finish(self, entry: Entry) -> None:
        """Do what an intent says, from wherever it was left."""
        for target, source in entry.staged.items():
            self.storage.move(source, f"{DATA}/{target}")
        self.storage.sync([f"{DATA}/{target}" for target in entry.staged])
        intent = f"{manifest.FOLDER}/{entry.number:010}.intent"
        self.storage.move(intent, f"{manifest.FOLDER}/{entry.number:010}.json")
        self.storage.sync([f"{manifest.FOLDER}/{entry.number:010}.json"])
        self.state.apply(entry)
        for path in entry.remove:
            self.storage.delete(f"{DATA}/{path}")
        for folder in {source.split("/")[1] for source in entry.staged.values()}:
            self.storage.delete(f"{STAGING}/{folder}")
        if entry.number % CHECKPOINT == 0:
            name = f"{manifest.FOLDER}/{entry.number:010}.checkpoint"
            self.storage.create(name, self.state.to_json())

    def _tidy(self) -> None:
        """Throw away what a writer that died left uncounted, and files that are taken out."""
        for name in self.storage.names(STAGING):
            self.storage.delete(f"{STAGING}/{name}")
        if self.state.number:
            for path in manifest.entry(self.storage, self.state.number).remove:
                self.storage.delete(f"{DATA}/{path}")


def check_shared(spark: SparkSession, store: Storage) -> None:
    """Raise LakeError when an executor does not find what the driver writes: a folder of its own.

    On a cluster each machine has another folder of that name, unless one is mounted on all.
    """
    if not isinstance(store, FolderStorage) or str(spark.sparkContext.master).startswith("local"):
        return
    name = f"seen-{token_hex(8)}"
    store.create(name, "seen")
    try:
        found = spark.read.option("ignoreMissingFiles", "true").text(f"{store.root}/{name}")
        if not found.count():
            raise LakeError(
                f"the executors of Spark do not find {store.root} of this machine: name a place"
                " that all machines of the cluster have, such as hdfs://host/path"
            )
    finally:
        store.delete(name)


def _ids() -> Column:
    return f.sum(f.col("id").cast("decimal(38,0)")).alias("ids")
