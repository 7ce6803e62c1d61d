"""The manifest of a lake: numbered entries, each of which adds files and takes others out.

    _manifest/0000000007.intent   what is about to be: its files lie in _staging, counted and whole
    _manifest/0000000007.json     what is: its files lie where they belong
    _manifest/0000000050.checkpoint   what all entries up to that one come to

An intent is the point of no return: whoever opens the lake next finishes it.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal, TypeVar

from skipmq.analytics.errors import LakeError
from skipmq.analytics.storage import Storage

FOLDER = "_manifest"
# Entries after which a checkpoint is written, so that opening a lake reads so many at most.
CHECKPOINT = 50
# Hours of windows that a checkpoint keeps: what a failover may have undone is newer.
REMEMBERED = 24
VERSION = 1

T = TypeVar("T")
Kind = Literal["export", "rewind", "compact", "erase"]


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file of the lake: where in the data, what is in it, and how big it is in bytes.

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


@dataclass(frozen=True, slots=True)
class Window:
    """Transactions from `first` to before `until`, and what the database counted in them then."""

    first: int
    until: int
    rows: int
    ids: int
    at: datetime
    timeline: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A change of the lake. `erased` rows, whose ids sum up to `erased_ids`, are gone for good."""

    number: int
    kind: Kind
    database: str
    window: Window | None = None
    add: tuple[File, ...] = ()
    remove: tuple[str, ...] = ()
    erased: int = 0
    erased_ids: int = 0
    reason: str = ""
    # Where each file that is added lay before.
    staged: dict[str, str] = field(default_factory=dict)
    version: int = VERSION

    def to_json(self) -> str:
        """Return the entry as it is stored."""
        return json.dumps(asdict(self), default=lambda moment: moment.isoformat(), indent=1)


@dataclass(slots=True)
class State:
    """What all entries come to: the files, and up to which transaction they reach."""

    number: int = 0
    database: str = ""
    position: int = 0
    files: dict[str, File] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)

    def check(self, entry: Entry) -> None:
        """Raise LakeError where an entry's files do not add up to what was counted."""
        gone = [self.files[path] for path in entry.remove]
        given = _sum(entry.add)
        wanted = _sum(gone)
        if entry.kind == "export" and entry.window is not None:
            wanted = (entry.window.rows, entry.window.ids)
        else:
            wanted = (wanted[0] - entry.erased, wanted[1] - entry.erased_ids)
        if given != wanted:
            raise LakeError(
                f"the files written hold {given[0]} rows (sum of ids {given[1]}) where {wanted[0]}"
                f" ({wanted[1]}) were counted: nothing has been changed; run it again"
            )

    def apply(self, entry: Entry) -> None:
        """Go on to the next entry."""
        self.number = entry.number
        self.database = self.database or entry.database
        for path in entry.remove:
            del self.files[path]
        self.files |= {file.path: file for file in entry.add}
        if entry.window is None:
            return
        if entry.kind == "rewind":
            self.windows = [w for w in self.windows if w.until <= entry.window.first]
            self.position = entry.window.first
        else:
            self.windows.append(entry.window)
            self.position = entry.window.until

    def to_json(self) -> str:
        """Return a checkpoint."""
        newest = self.windows[-1].at if self.windows else None
        kept = [
            w
            for w in self.windows
            if newest and (newest - w.at).total_seconds() < REMEMBERED * 3600
        ]
        content = asdict(replace(self, windows=kept)) | {"version": VERSION}
        content["files"] = list(content["files"].values())
        return json.dumps(content, default=lambda moment: moment.isoformat())


def load(storage: Storage) -> tuple[State, Entry | None]:
    """Return what the manifest says, and the entry that was begun and not finished, if any.

    Raises LakeError for one of a later release, or one that is damaged.
    """
    names = storage.names(FOLDER)
    state = State()
    if checkpoints := [name for name in names if name.endswith(".checkpoint")]:
        state = _read(storage, checkpoints[-1], _state)
    for name in names:
        number, _, kind = name.partition(".")
        if kind == "json" and int(number) > state.number:
            if int(number) != state.number + 1:
                raise LakeError(f"the manifest lacks its entry {state.number + 1}")
            state.apply(entry(storage, int(number)))
    intent = f"{state.number + 1:010}.intent"
    if intent in names:
        return state, _read(storage, intent, _entry)
    return state, None


def entry(storage: Storage, number: int) -> Entry:
    """Return an entry that is finished."""
    return _read(storage, f"{number:010}.json", _entry)


def _read(storage: Storage, name: str, understood: Callable[[dict[str, Any]], T]) -> T:
    try:
        return understood(json.loads(storage.read(f"{FOLDER}/{name}")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakeError(
            f"the manifest's file {FOLDER}/{name} is damaged: put back a copy of it, or begin"
            " another lake"
        ) from error


def _sum(files: Iterable[File]) -> tuple[int, int]:
    found = list(files)
    return sum(file.rows for file in found), sum(file.ids for file in found)


def _known(content: dict[str, Any]) -> dict[str, Any]:
    if content["version"] != VERSION:
        raise LakeError(f"the manifest is of version {content['version']}: use a later SkipMQ")
    return content


def _entry(content: dict[str, Any]) -> Entry:
    parts = _known(content) | {
        "window": _window(content["window"]) if content["window"] else None,
        "add": tuple(map(_file, content["add"])),
        "remove": tuple(content["remove"]),
    }
    return Entry(**parts)


def _state(content: dict[str, Any]) -> State:
    parts = {key: value for key, value in _known(content).items() if key != "version"}
    files = {file.path: file for file in map(_file, content["files"])}
    return State(**(parts | {"files": files, "windows": list(map(_window, content["windows"]))}))


def _file(content: dict[str, Any]) -> File:
    return File(**(content | {"day": date.fromisoformat(content["day"])}))


def _window(content: dict[str, Any]) -> Window:
    return Window(**(content | {"at": datetime.fromisoformat(content["at"])}))
