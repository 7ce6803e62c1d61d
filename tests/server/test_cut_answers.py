"""What is acknowledged is done, wherever in the database's answer the connection ends.

The rows of a statement, and CommandComplete, come before its commit; ReadyForQuery comes after it.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from botocore.exceptions import ClientError

from skipmq.database import session
from support.http import NodeProcess
from support.postgres import Connection, Databases
from support.shop import Shop
from support.wire_cuts import ALL, COMMAND_COMPLETE, Cut, How, WireCuts
from support.writes import OF_QUEUES, WRITES, Write


@pytest.fixture(scope="module")
def url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


@pytest.fixture(scope="module")
def cuts(embedded_databases: Databases) -> Iterator[WireCuts]:
    server = embedded_databases.server.url
    folder = psycopg.conninfo.conninfo_to_dict(server)["host"]
    with WireCuts(Path(str(folder)) / ".s.PGSQL.5432", server) as found:
        yield found


@pytest.fixture(scope="module")
def through(url: str, cuts: WireCuts) -> str:
    """Give the URL of the database that leads through the cuts."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    plain = "sslmode=disable&gssencmode=disable"
    return f"postgresql://skipmq_node@127.0.0.1:{cuts.port}/{name}?{plain}"


@pytest.fixture(scope="module")
def node(through: str) -> Iterator[NodeProcess]:
    with NodeProcess(database_url=through, workers=1, purge_cooldown=0) as found:
        yield found.ready()


@pytest.fixture
def owner(url: str) -> Iterator[Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def cut_while(cuts: WireCuts, shop: Shop, write: Write, cut: Cut) -> None:
    """Run a request whose answer from the database is cut; check what it acknowledges."""
    act = write.prepare(shop)
    with cuts.cutting(cut):
        try:
            answer = act()
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503  # noqa: PT017
            assert not write.repeats
        else:
            assert write.done(shop, answer), cut


def cut_everywhere(
    node: NodeProcess, cuts: WireCuts, owner: Connection, write: Write, how: How
) -> None:
    """Cut the answers to requests after none of their messages, after the first, and so on."""
    for messages in count():
        cut = Cut(write.function, messages, how)
        cut_while(cuts, Shop(node.url, owner, fifo=write.fifo), write, cut)
        if cut.had_all:
            break

    assert messages > 2


# One that writes, and one that returns what it claims. All wait for the same code: the gate cuts
# the answers to the others at the end only, in one way.
IN_GATE = {"SendMessage", "ReceiveMessage"}
OFTEN = [
    pytest.param(write, marks=[] if str(write) in IN_GATE else [pytest.mark.slow])
    for write in WRITES
]


@pytest.mark.parametrize("write", OFTEN, ids=str)
def test_request_whose_answer_is_cut_after_the_commit_is_done_when_it_is_acknowledged(
    node: NodeProcess, cuts: WireCuts, owner: Connection, write: Write
) -> None:
    cut_everywhere(node, cuts, owner, write, How.COMMITTED)


@pytest.mark.parametrize("write", OFTEN, ids=str)
def test_request_whose_answer_is_cut_before_the_commit_is_done_when_it_is_acknowledged(
    node: NodeProcess, cuts: WireCuts, owner: Connection, write: Write
) -> None:
    cut_everywhere(node, cuts, owner, write, How.ROLLED_BACK)


AT_THE_END = [
    pytest.param(
        write,
        how,
        id=f"{write}-{how.name.lower()}",
        marks=[] if how is How.TERMINATED else [pytest.mark.slow],
    )
    for write in WRITES
    for how in How
    if how is How.TERMINATED or write in OF_QUEUES
]


@pytest.mark.parametrize(("write", "how"), AT_THE_END)
def test_request_whose_session_ends_with_the_answer_is_done_when_it_is_acknowledged(
    node: NodeProcess, cuts: WireCuts, owner: Connection, write: Write, how: How
) -> None:
    cut = Cut(write.function, ALL, how)

    cut_while(cuts, Shop(node.url, owner, fifo=write.fifo), write, cut)

    assert cut.had_all
    assert COMMAND_COMPLETE in cut.passed


@pytest.mark.parametrize("how", [How.ROLLED_BACK, How.TERMINATED])
def test_session_of_a_command_raises_when_it_ends_between_the_rows_and_the_commit(
    through: str, cuts: WireCuts, owner: Connection, node: NodeProcess, how: How
) -> None:
    shop = Shop(node.url, owner)
    shop.fill()
    send = "skipmq.send_message("

    with (
        session.connect(through, "command") as command,
        cuts.cutting(Cut(send, ALL, how)),
        pytest.raises(session.Unavailable),
    ):
        command.execute("select " + send + "%s, %s)", (shop.name, "body"))

    assert shop.count() == 0
