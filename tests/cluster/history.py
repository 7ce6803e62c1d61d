"""What clients saw and what was done to the cluster: a line of JSON each, written as it happens."""

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self

# Info: nobody knows whether it was done, or it may be done yet.
Type = Literal["ok", "fail", "info"]


@dataclass(frozen=True, slots=True)
class Op:
    """One thing that was tried; times by the monotonic clock, which all processes here share.

    Each message of a batch is an op of its own, at its place. Value is the body, and in a FIFO
    queue the deduplication id as well.
    """

    op: str
    type: Type
    process: str
    t_invoke: float
    t_ok: float
    queue: str = ""
    group: str = ""
    value: str = ""
    message_id: str = ""
    receipt: str = ""
    sequence_number: int = 0
    receive_count: int = 0
    visibility: float = 0
    place: int = 0
    error: str = ""


_DEFAULTS = {field.name: field.default for field in fields(Op)}


class History:
    """A history as it grows, in memory and in a file; safe for threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ops: list[Op] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()

    def add(self, *ops: Op) -> None:
        """Note what happened; a crash of this process does not lose it."""
        lines = "".join(f"{json.dumps(_told(op))}\n" for op in ops)
        with self._lock:
            self.ops += ops
            self._file.write(lines)
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read(path: Path) -> Iterator[Op]:
    """Give the ops of a file; a last line that was not written to its end is left out."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield Op(**json.loads(line))


def _told(op: Op) -> dict[str, Any]:
    return {name: value for name, value in asdict(op).items() if value != _DEFAULTS[name]}
