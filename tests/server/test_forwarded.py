"""What a node believes of who a request is from, as its audit log shows it."""

import json
from collections.abc import Iterator

import pytest

from support.http import NodeProcess, eventually, raw
from support.postgres import Databases, as_node


@pytest.fixture(scope="module")
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = embedded_databases.migrated()
    settings = {"trusted_proxies": "127.0.0.1", "log_format": "json"}
    with NodeProcess(database_url=as_node(url), workers=1, **settings) as node:
        yield node.ready()
    embedded_databases.drop(url)


@pytest.mark.parametrize("address", ["192.0.2.7", "::ffff:c000:207"])
@pytest.mark.parametrize("path", ["/console/queues", "/?Action=ListQueues"])
def test_header_with_an_underline_is_not_the_one_that_proxies_write(
    node: NodeProcess, path: str, address: str
) -> None:
    headers = {
        "Host": "other.example",  # A refusal is in the audit log.
        "X-Forwarded-For": address,
        "X_Forwarded_For": "203.0.113.66",
    }
    so_far = len(node.lines)

    answer = raw(node.url + path, headers=headers)

    clients = eventually(
        lambda: [
            line["client"]
            for line in (json.loads(each) for each in node.lines[so_far:] if each.startswith("{"))
            if line["event"] == "audit"
        ]
    )
    assert answer.status == 403
    assert clients == ["192.0.2.7"]
