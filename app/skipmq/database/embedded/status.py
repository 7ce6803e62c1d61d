"""The status of an embedded PostgreSQL, read without starting it or changing a file."""

import struct
from dataclasses import dataclass
from pathlib import Path

from skipmq.database.embedded import data_folder
from skipmq.database.embedded.data_folder import Folder

# The system identifier and the cluster's state in pg_control, and the states after a shutdown.
_CONTROL = struct.Struct("=Q8xi")
_SHUT_DOWN = (1, 2)


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a data folder.

    `version` is PostgreSQL's major version, None if the folder has no database; `url` is the
    owner's, None if no server runs; `was_shut_down` and the system identifier are None if the files
    cannot be read.
    """

    data_dir: Path
    version: str | None = None
    url: str | None = None
    was_shut_down: bool | None = None
    system: str | None = None

    def __str__(self) -> str:
        """Describe a server that is not running, and how to start it."""
        if self.version is None:
            return f"no database in {self.data_dir} yet: `skipmq serve` creates one"
        state = {
            True: "was shut down cleanly: `skipmq serve` starts it",
            False: "was not shut down cleanly: `skipmq serve` starts it and recovers",
            None: "cannot be inspected by this account: run `skipmq serve` as its owner",
        }[self.was_shut_down]
        return f"PostgreSQL {self.version} in {self.data_dir} is not running and {state}"


def status(data_dir: Path) -> Status:
    """Return the status of a folder."""
    folder = Folder(data_dir.expanduser().resolve(), ephemeral=False, bin_dir=None)
    try:
        version = (folder.cluster / "PG_VERSION").read_text().strip()
        control = (folder.cluster / "global" / "pg_control").read_bytes()
        system, state = _CONTROL.unpack_from(control)
        if data_folder.is_ready(folder):
            return Status(folder.data, version, folder.url, system=str(system))
    except FileNotFoundError:
        return Status(folder.data)
    except PermissionError:
        return Status(folder.data, "of another account")
    was_shut_down = state in _SHUT_DOWN
    return Status(folder.data, version, was_shut_down=was_shut_down, system=str(system))
