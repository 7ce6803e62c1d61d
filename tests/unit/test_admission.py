import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from structlog.testing import capture_logs

from skipmq.broker.node import Node
from skipmq.config.settings import Settings
from skipmq.protocol import errors
from skipmq.protocol.call import Request
from skipmq.server.admission import Admission
from skipmq.server.answer import Broker
from skipmq.telemetry.metrics import Observer
from support.wire import target

Ask = Callable[..., Request]


class Counts(Observer):
    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, event: str) -> None:
        self.counted.append(event)


@contextmanager
def requests(admission: Admission, count: int) -> Iterator[None]:
    """Have `count` requests served."""
    with ExitStack() as served:
        for _ in range(count):
            served.enter_context(admission)
        yield


def refuse(admission: Admission) -> None:
    """Try to enter as a request does that is refused."""
    with pytest.raises(errors.Overloaded), admission:
        pass


@pytest.mark.parametrize(("most", "waiting"), [(2048, 1792), (8, 4)])
def test_waiting_receivers_never_get_an_eighth_or_the_last_four(most: int, waiting: int) -> None:
    assert Settings(max_requests=most).max_waiting == waiting


def test_request_beyond_the_bound_is_refused_until_one_has_ended() -> None:
    counts = Counts()
    admission = Admission(8, counts)
    with requests(admission, 8):
        refuse(admission)
        assert (admission.active, admission.refused) == (8, 1)

    with requests(admission, 1):
        assert (admission.active, admission.refused) == (1, 1)
    assert (admission.active, admission.refused) == (0, 1)
    assert counts.counted == ["refused"]


def test_refusing_is_logged_as_it_begins_and_as_it_ends() -> None:
    admission = Admission(8, Observer(), quiet=0.0)
    with capture_logs() as lines:
        for _ in range(2):
            with requests(admission, 8):
                for _ in range(3):
                    refuse(admission)
            with requests(admission, 1):
                pass

    assert [line["event"] for line in lines] == [
        "refusing requests",
        "no longer refusing requests",
    ] * 2
    assert [line["refused"] for line in lines if "refused" in line] == [3, 3]


@pytest.mark.parametrize(
    ("action", "parameters", "status"),
    [
        ("Explode", {}, 400),
        ("CreateQueue", {}, 400),
        # There is no database.
        ("ListQueues", {}, 503),
    ],
)
async def test_request_that_fails_is_counted_out(
    action: str, parameters: dict[str, str], status: int, ask: Ask
) -> None:
    settings = Settings(failover_wait=0)
    node = Node(settings, "postgresql://127.0.0.1:1/nowhere")
    node.is_open = True  # It was once: the database went away since.
    broker = Broker(node)

    body = json.dumps(parameters).encode()
    response = await broker.answer(ask(body, headers=target(action)))

    assert response.status == status
    assert (broker.admission.active, broker.admission.refused) == (0, 0)
    await node.close()


async def test_request_that_finds_no_room_is_refused_and_counted(ask: Ask) -> None:
    node = Node(Settings(max_requests=8), "postgresql://127.0.0.1:1/nowhere")
    broker = Broker(node)
    with requests(broker.admission, 8):
        response = await broker.answer(ask(b"{}", headers=target("ListQueues")))

    assert response.status == 503
    assert dict(response.headers)["retry-after"] == "1"
    assert (broker.admission.active, broker.admission.refused) == (0, 1)
    await node.close()
