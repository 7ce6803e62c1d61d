import threading
from time import monotonic

import psycopg
import pytest

from skipmq.store.outage import Outage, Unobserved


class Ward:
    """Something that is there or not, and an outage that looks after it."""

    def __init__(self) -> None:
        self.is_there = threading.Event()
        self.looks = 0
        self.outage = Outage("ward", self.look, Unobserved())

    def look(self) -> None:
        self.looks += 1
        if not self.is_there.is_set():
            raise psycopg.OperationalError("not there")


@pytest.fixture
def ward() -> Ward:
    return Ward()


def test_nobody_waits_without_an_outage(ward: Ward) -> None:
    assert ward.outage.wait(monotonic())
    assert not ward.outage.is_on


def test_all_who_wait_go_on_together(ward: Ward) -> None:
    ward.outage.begin(psycopg.OperationalError("gone"))
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda: results.append(ward.outage.wait(monotonic() + 60)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    assert results == []

    ward.is_there.set()
    for thread in threads:
        thread.join(30)

    assert results == [True] * 8


def test_who_waits_too_long_is_told(ward: Ward) -> None:
    ward.outage.begin(psycopg.OperationalError("gone"))

    assert not ward.outage.wait(monotonic() + 0.01)
    assert ward.outage.is_on
    ward.outage.stop()


def test_stop_ends_all_waiting(ward: Ward) -> None:
    ward.outage.begin(psycopg.OperationalError("gone"))
    waiting = threading.Timer(0.1, ward.outage.stop)
    waiting.start()

    assert not ward.outage.wait(monotonic() + 60)
    ward.outage.begin(psycopg.OperationalError("gone"))
    assert not ward.outage.is_on


def test_one_thread_looks_however_many_notice(ward: Ward) -> None:
    for _ in range(5):
        ward.outage.begin(psycopg.OperationalError("gone"))
    ward.is_there.set()
    ward.outage.outlast()

    assert ward.outage.number == 1


def test_look_that_fails_for_another_reason_holds_nobody_for_ever() -> None:
    def broken() -> None:
        raise ZeroDivisionError

    outage = Outage("ward", broken, Unobserved())
    outage.begin(psycopg.OperationalError("gone"))

    assert outage.wait(monotonic() + 60)
