"""Two nodes on one database, and clients that go from one to the other."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from support.http import NodeProcess, client
from support.postgres import as_node

Nodes = list[NodeProcess]


class Client:
    """A client that goes to the next node when one does not answer, as behind a balancer."""

    def __init__(self, nodes: Nodes, first: int) -> None:
        self._clients = [client(node.url) for node in nodes]
        self._at = first % len(nodes)

    def call(self, action: str, **parameters: Any) -> dict[str, Any] | None:
        """Return the answer, or None when this try failed and nobody knows how."""
        try:
            answer: dict[str, Any] = getattr(self._clients[self._at], action)(**parameters)
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500, error  # noqa: PT017
        except BotoCoreError:
            pass
        else:
            return answer
        self.turn()
        return None

    def surely(self, action: str, **parameters: Any) -> dict[str, Any]:
        """Try until there is an answer."""
        while (answer := self.call(action, **parameters)) is None:
            pass
        return answer

    def turn(self) -> None:
        """Go to the other node."""
        self._at = (self._at + 1) % len(self._clients)


@contextmanager
def two_nodes(database: str) -> Iterator[Nodes]:
    """Run two nodes of one worker each on a database, given by its owner's URL."""
    url = as_node(database)
    with (
        NodeProcess(database_url=url, workers=1) as one,
        NodeProcess(database_url=url, workers=1) as two,
    ):
        yield [one.ready(), two.ready()]
