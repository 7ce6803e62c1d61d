"""How an embedded PostgreSQL is, found out without starting it or changing a file."""

import struct
from dataclasses import dataclass
from pathlib import Path

from skipmq.embedded import data_folder
from skipmq.embedded.data_folder import Folder

# Where pg_control has the state of the cluster, and the states of one that was shut down.
_STATE = struct.Struct("=16xi")
_SHUT_DOWN = (1, 2)


@dataclass(frozen=True, slots=True)
class Status:
    """What is in a data folder.

    `version` is the major one of PostgreSQL, None when there is no database; `url` the owner's,
    None when no server runs; `was_shut_down` is None where the files cannot be read.
    """

    data_dir: Path
    version: str | None = None
    url: str | None = None
    was_shut_down: bool | None = None

    def __str__(self) -> str:
        """Return one sentence on a server that does not run, and what starts it."""
        if self.version is None:
            return f"none yet in {self.data_dir}: `skipmq serve` makes one"
        ending = {
            True: "it was shut down cleanly: `skipmq serve` starts it",
            False: "it was not shut down cleanly: `skipmq serve` starts it and recovers",
            None: "this account may not read how it ended: `skipmq serve` as its owner starts it",
        }[self.was_shut_down]
        return f"PostgreSQL {self.version} in {self.data_dir} does not run, and {ending}"


def status(data_dir: Path) -> Status:
    """Return how the server of a folder is."""
    folder = Folder(data_dir.expanduser().resolve(), ephemeral=False, bin_dir=None)
    try:
        version = (folder.cluster / "PG_VERSION").read_text().strip()
        if data_folder.is_ready(folder):
            return Status(folder.data, version, folder.url)
        (state,) = _STATE.unpack_from((folder.cluster / "global" / "pg_control").read_bytes())
    except FileNotFoundError:
        return Status(folder.data)
    except PermissionError:
        return Status(folder.data, "of another account")
    return Status(folder.data, version, was_shut_down=state in _SHUT_DOWN)
