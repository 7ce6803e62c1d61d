"""Trees of processes are struck whole."""

import subprocess
from collections.abc import Iterator

import psutil
import pytest

from support.http import eventually
from support.processes import is_alive
from support.trees import frozen, kill, one, trees


@pytest.fixture
def family() -> Iterator[list[psutil.Process]]:
    """Give a shell and the process that it has started."""
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"]) as shell:
        try:
            yield eventually(lambda: (both := trees([shell.pid]))[1:] and both)
        finally:
            kill(shell.pid)


def test_frozen_tree_stands_still_until_the_end_of_the_block(family: list[psutil.Process]) -> None:
    with frozen(family[0].pid):
        eventually(lambda: {process.status() for process in family} == {psutil.STATUS_STOPPED})

    eventually(lambda: psutil.STATUS_STOPPED not in [process.status() for process in family])


def test_kill_ends_the_whole_tree(family: list[psutil.Process]) -> None:
    kill(family[0].pid)

    eventually(lambda: family[0].status() == psutil.STATUS_ZOMBIE)
    eventually(lambda: not is_alive(family[1].pid))


def test_frozen_tree_can_be_killed(family: list[psutil.Process]) -> None:
    with frozen(family[0].pid):
        kill(family[0].pid)

    eventually(lambda: family[0].status() == psutil.STATUS_ZOMBIE)


def test_process_that_is_not_there_is_never_ours() -> None:
    kill(None)

    assert trees([None]) == []
    with pytest.raises(psutil.NoSuchProcess):
        one(None)
