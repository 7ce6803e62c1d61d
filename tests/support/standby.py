"""Standbys of an embedded server, there or only waited for."""

import os
import subprocess
from pathlib import Path

from skipmq.database.embedded import binaries
from support.http import eventually
from support.postgres import Connection
from support.sql import number

_SECONDS = 60
# Sends that wait for a standby; a janitor's commit may do so too.
WAITING_SENDS = "from pg_stat_activity where wait_event = 'SyncRep' and query ~ 'skipmq.send_'"


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


def wait_for_standby(owner: Connection, name: str) -> None:
    """Have all commits but the owner's wait for a standby of this name, or for none."""
    owner.execute("set synchronous_commit = local")
    owner.execute(f"alter system set synchronous_standby_names = '{name}'")
    owner.execute("select pg_reload_conf()")
    eventually(
        lambda: number(owner, "show synchronous_standby_names") == name, why="the setting is read"
    )
    # It is the checkpointer that tells the others, as soon as it has read the setting itself.
    owner.execute("checkpoint")
