"""Making a Delta table of a lake of the older form, whose files stay where they are."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

from pyarrow import fs
from pyspark.sql import SparkSession

from skipmq.analytics import delta, storage
from skipmq.analytics.delta import OLDER, Written
from skipmq.analytics.errors import LakeError
from skipmq.analytics.lake import Lake
from skipmq.analytics.windows import Window


def convert(spark: SparkSession, path: str) -> Lake:
    """Commit the files that the manifest of a lake lists as a Delta table; return the lake.

    What an export had begun and not finished is exported again by the next. Raises LakeError when
    there is no such lake, or its manifest lacks an entry or is damaged.
    """
    place = storage.qualified(spark, path)
    if not storage.is_there(spark, f"{place}/{OLDER}"):
        raise LakeError(f"there is no lake of the older form at {path}")
    files = delta.files(place)
    database, listed, window = _state(files)
    lake = Lake.create(spark, path, database)
    if not lake.table.position:
        lake.table.commit("convert", [_written(file) for file in listed.values()], window=window)
    for old in (OLDER, "_staging", "_lock"):
        storage.remove(spark, f"{place}/{old}")
    return lake


def _state(files: fs.FileSystem) -> tuple[str, dict[str, dict[str, Any]], Window]:
    """Return the database, the files by path and the last window that all entries come to."""
    there = files.get_file_info(fs.FileSelector(OLDER))
    names = {PurePosixPath(info.path).name for info in there}
    entries = sorted(name for name in names if name.endswith(".json"))
    checkpoints = sorted(name for name in names if name.endswith(".checkpoint"))
    number, database, listed, windows = 0, "", {}, []
    if checkpoints:
        begun = _read(files, checkpoints[-1])
        number, database, windows = begun["number"], begun["database"], begun["windows"]
        listed = {file["path"]: file for file in begun["files"]}
    for name in entries:
        if int(name.partition(".")[0]) <= number:
            continue
        entry = _read(files, name)
        if entry["number"] != number + 1:
            raise LakeError(f"the manifest lacks its entry {number + 1}: put back a copy of it")
        number, database = entry["number"], database or entry["database"]
        for gone in entry["remove"]:
            del listed[gone]
        listed |= {file["path"]: file for file in entry["add"]}
        if entry["kind"] == "rewind":
            windows = [w for w in windows if w["until"] <= entry["window"]["first"]]
        elif entry["window"]:
            windows.append(entry["window"])
    if not windows:
        raise LakeError("the lake is empty: remove it, and export again")
    last = windows[-1]
    return database, listed, Window(**(last | {"at": datetime.fromisoformat(last["at"])}))


def _read(files: fs.FileSystem, name: str) -> dict[str, Any]:
    with files.open_input_file(f"{OLDER}/{name}") as file:
        try:
            return dict(json.loads(file.read()))
        except ValueError as error:
            raise LakeError(f"{OLDER}/{name} is damaged: put back a copy of it") from error


def _written(file: dict[str, Any]) -> Written:
    # The manifest has no times of its own for a file: they are within its day.
    begin = datetime.combine(date.fromisoformat(file["day"]), datetime.min.time(), UTC)
    end = begin + timedelta(days=1)
    moments = (int(begin.timestamp()) * 1_000_000, int(end.timestamp()) * 1_000_000)
    xids = (file["first"], file["last"])
    return Written(file["path"], file["size"], 0, file["rows"], file["ids"], xids, moments)
