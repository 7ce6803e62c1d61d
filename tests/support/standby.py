"""Standbys of an embedded server."""

import os
import subprocess
from pathlib import Path

from skipmq.embedded import binaries

_SECONDS = 60


def copy(url: str, place: Path, name: str = "standby") -> None:
    """Copy a server's data to `place`, where an embedded server then starts as its standby."""
    programs = binaries.find(None)
    account = programs.account
    place.mkdir(mode=0o711, parents=True)
    if account:
        os.chown(place, account.uid, account.gid)
    words = [programs.folder / "pg_basebackup", "-R", "-D", place / "postgresql", "-c", "fast"]
    subprocess.run(
        [*words, "-d", f"{url}&application_name={name}"],
        check=True,
        capture_output=True,
        cwd="/",
        timeout=_SECONDS,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
