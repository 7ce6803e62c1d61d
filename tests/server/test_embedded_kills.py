"""The embedded PostgreSQL when its users, its keeper or itself are killed or told to stop."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from skipmq.database import embedded
from skipmq.database.embedded import data_folder, keeper
from support.processes import (
    add_row,
    ask,
    files_of,
    holding,
    is_alive,
    keeper_of,
    parent_of,
    pids_with,
    postmaster_of,
    rows,
    until,
    until_gone,
)
from support.servers import start


def test_processes_starting_at_once_share_a_server_until_the_last_is_gone(data: Path) -> None:
    with holding(data) as first:
        with holding(data) as second, holding(data) as third:
            urls = {holder.read()[0] for holder in (first, second, third)}
            postmaster = postmaster_of(data)
            servers = [pid for pid in pids_with(str(data)) if parent_of(pid) == keeper_of(data)]
        url = urls.pop()

        assert not urls
        assert servers == [postmaster]
        assert ask(url, "select 1") == 1
        assert postmaster_of(data) == postmaster

    until_gone(postmaster)


def test_kill_of_the_only_holder_stops_the_server_and_keeps_the_data(data: Path) -> None:
    with holding(data) as holder:
        url, _ = holder.read()
        add_row(url, 1)
        postmaster = postmaster_of(data)
        holder.kill()

        until_gone(postmaster)

    with start(data) as server:
        assert rows(server.url) == [1]


def test_kill_of_the_postmaster_brings_it_back(data: Path) -> None:
    with start(data) as server:
        add_row(server.url, 1)
        postmaster = postmaster_of(data)

        os.kill(postmaster, signal.SIGKILL)
        until_gone(postmaster)
        with start(data):  # It waits until the server is ready.
            assert rows(server.url) == [1]

        assert postmaster_of(data) != postmaster


def test_server_is_not_ready_while_only_a_child_of_a_killed_postmaster_listens(data: Path) -> None:
    with holding(data) as holder:
        holder.read()
        postmaster = postmaster_of(data)
        os.kill(keeper_of(data), signal.SIGKILL)
        os.kill(postmaster, signal.SIGKILL)
        holder.kill()
    until_gone(postmaster)
    folder = data_folder.Folder(data, ephemeral=False, bin_dir=None)
    (folder.sockets / keeper.SOCKET_NAME).unlink()

    with socket.socket(socket.AF_UNIX) as child:
        child.bind(str(folder.sockets / keeper.SOCKET_NAME))
        child.listen()

        assert keeper.is_listening(folder.sockets)
        assert not data_folder.is_ready(folder)


def test_kill_of_the_keeper_leaves_a_server_that_the_next_start_takes_over(data: Path) -> None:
    with start(data) as first:
        add_row(first.url, 1)
        orphan, killed = postmaster_of(data), keeper_of(data)
        os.kill(killed, signal.SIGKILL)
        until_gone(killed)
        add_row(first.url, 2)

        with start(data) as second:
            assert not is_alive(orphan)
            assert rows(second.url) == [1, 2]
            assert "keeper.py" in Path(f"/proc/{keeper_of(data)}/cmdline").read_text()
            postmaster = postmaster_of(data)

    until_gone(postmaster)


def test_kill_of_the_keeper_does_not_outlast_the_last_release(data: Path) -> None:
    with start(data):
        orphan, killed = postmaster_of(data), keeper_of(data)
        os.kill(killed, signal.SIGKILL)
        until_gone(killed)

    until_gone(orphan)


@pytest.mark.slow
def test_kill_of_all_recovers(data: Path) -> None:
    with holding(data) as holder:
        url, _ = holder.read()
        add_row(url, 1)
        postmaster = postmaster_of(data)
        os.kill(keeper_of(data), signal.SIGKILL)
        os.kill(postmaster, signal.SIGKILL)
        holder.kill()
    until_gone(postmaster)

    with start(data) as server:
        assert rows(server.url) == [1]


def test_start_is_not_misled_by_a_process_number_that_another_program_has_now(data: Path) -> None:
    with holding(data) as holder:
        url, _ = holder.read()
        add_row(url, 1)
        postmaster = postmaster_of(data)
        os.kill(keeper_of(data), signal.SIGKILL)
        os.kill(postmaster, signal.SIGKILL)
        holder.kill()
    until_gone(postmaster)
    account = (data / "postgresql").stat().st_uid

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=account) as other:
        for path in (data / "postgresql/postmaster.pid", data / "run/.s.PGSQL.5432.lock"):
            path.write_text(path.read_text().replace(f"{postmaster}\n", f"{other.pid}\n", 1))

        with start(data) as server:
            assert rows(server.url) == [1]


@pytest.mark.slow
def test_sigterm_to_the_keeper_stops_the_server_and_the_next_start_revives_it(data: Path) -> None:
    with start(data):
        postmaster, told = postmaster_of(data), keeper_of(data)

        os.kill(told, signal.SIGTERM)
        until_gone(postmaster)
        until_gone(told)

        with start(data) as again:
            assert ask(again.url, "select 1") == 1


def test_keys_of_the_terminal_do_not_reach_the_keeper(data: Path) -> None:
    with start(data) as server:
        its_keeper = keeper_of(data)
        for key in (signal.SIGINT, signal.SIGHUP):
            os.kill(its_keeper, key)

        assert ask(server.url, "select 1") == 1
        assert os.getsid(its_keeper) != os.getsid(0)
        assert is_alive(its_keeper)


def test_locks_do_not_leak_into_the_server(data: Path) -> None:
    with start(data):
        held = files_of(postmaster_of(data))

    assert not [path for path in held if path.suffix == ".lock" and path.parent == data]


def test_kill_during_initdb_does_not_hurt_the_next_start(data: Path) -> None:
    with holding(data, by_initdb=True) as holder:
        # Or it was, while this test stood still.
        began = (data / "postgresql.new" / "PG_VERSION", data / "postgresql")
        until(lambda: any(path.exists() for path in began), "initdb is at work")
        holder.kill()

    with embedded.start(data) as server:
        assert ask(server.url, "select 1") == 1

    assert not (data / "postgresql.new").exists()


def test_ephemeral_folder_is_removed_after_kill_of_its_holder(data: Path, place: Path) -> None:
    with holding(data, "ephemeral") as holder:
        holder.read()
        its_keeper = keeper_of(data)
        holder.kill()

        until_gone(its_keeper)

    assert list(place.iterdir()) == []
