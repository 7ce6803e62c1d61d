from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from structlog.testing import capture_logs

from skipmq import errors
from skipmq.admission import Admission


@contextmanager
def requests(admission: Admission, count: int, *, parked: bool = False) -> Iterator[None]:
    """Have so many requests under way."""
    with ExitStack() as under_way:
        for _ in range(count):
            under_way.enter_context(admission.admitted())
            if parked:
                assert under_way.enter_context(admission.parked())
        yield


def numbers(admission: Admission) -> tuple[int, int, int]:
    return admission.active, admission.waiting, admission.refused


def test_waiting_receivers_never_get_an_eighth_of_the_threads() -> None:
    admission = Admission(2048)

    assert (admission.most, admission.most_waiting) == (2048, 1792)


def test_few_threads_still_serve_both_kinds() -> None:
    admission = Admission(8)

    assert (admission.most, admission.most_waiting) == (8, 4)


def test_request_beyond_the_bound_is_refused_until_one_has_ended() -> None:
    admission = Admission(8)
    with requests(admission, 2, parked=True), requests(admission, 6):
        with pytest.raises(errors.Overloaded), admission.admitted():
            pass
        assert numbers(admission) == (6, 2, 1)

    with admission.admitted():
        assert numbers(admission) == (1, 0, 1)
    assert numbers(admission) == (0, 0, 1)


def test_request_that_fails_is_counted_out() -> None:
    admission = Admission(8)

    with pytest.raises(KeyError), admission.admitted():
        raise KeyError

    assert numbers(admission) == (0, 0, 0)


def test_waiting_receivers_take_no_room_from_other_requests() -> None:
    admission = Admission(8)
    with requests(admission, 4, parked=True), requests(admission, 3):
        with admission.admitted(), admission.parked() as has_room:
            assert not has_room
            assert numbers(admission) == (4, 4, 0)
            admission.turn_away()

        assert numbers(admission) == (3, 4, 1)
    assert numbers(admission) == (0, 0, 1)


def test_refusing_is_logged_as_it_begins_and_as_it_ends() -> None:
    admission = Admission(8, quiet=0.0)
    with capture_logs() as lines:
        for _ in range(2):
            with requests(admission, 8):
                for _ in range(3):
                    with pytest.raises(errors.Overloaded), admission.admitted():
                        pass
            with admission.admitted():
                pass

    assert [line["event"] for line in lines] == [
        "refusing requests",
        "no longer refusing requests",
    ] * 2
    assert [line["refused"] for line in lines if "refused" in line] == [3, 3]
