"""The command that pages name as the same in the terminal, run as they name it."""

import re
import shlex
from html import unescape

import pytest

from support.commands import invoke
from support.http import NodeProcess, client, environment, eventually
from support.visitor import Visitor

_COMMAND = re.compile('<code id="terminal">skipmq ([^<]*)</code>')
# Pages by what the output of their command has in common with them.
_PAGES = {
    "/console/us-east-1/000000000000/": "",
    "queues?q=twin&sort=oldest": "twin-dead",
    "dead-letters?q=twin-dead": "twin-dead",
    "nodes": "requests",
    "tasks": "",
    "database/sessions": "process",
    "audit?queue=twin&action=CreateQueue": "CreateQueue",
    "queues/twin/overview": "VisibilityTimeout",
    "queues/twin/messages?state=visible&order=size": "a body",
    "queues/twin/search?body=a+body": "a body",
    "queues/twin/search?none=1": "a body",
    "queues/twin/consumers": "no consumer",
    "queues/twin/charts": "twin",
    "queues/twin/settings": "VisibilityTimeout",
    "queues/twin/redrive": "no tasks",
    "queues/twin/groups": "group-of-twin",
    "queues/twin.fifo/groups?group=it%27s": "it's",
}


@pytest.fixture(scope="module")
def visitor(node: NodeProcess) -> Visitor:
    sqs = client(node.url)
    for name in ("twin", "twin-dead"):
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
    url = sqs.get_queue_url(QueueName="twin")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="a body")
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName="twin.fifo", Attributes=fifo)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="a mail", MessageGroupId="it's")
    # Nodes write audit records after they have answered.
    created = ("audit", "--queue", "twin", "--action", "CreateQueue")
    owner = environment({"database_url": node.owner_url})
    eventually(lambda: "CreateQueue" in invoke(created, owner).stdout, why="it is recorded")
    visitor = Visitor(node.url)
    visitor.post("queues/twin/groups/pause", {"id": "group-of-twin"})
    return visitor


@pytest.mark.parametrize("page", _PAGES)
def test_command_of_a_page_runs_and_gives_what_the_page_has(
    node: NodeProcess, visitor: Visitor, page: str
) -> None:
    found = _COMMAND.search(visitor.get(page).body)
    assert found

    words = tuple(shlex.split(unescape(found[1])))
    done = invoke(words, environment({"database_url": node.owner_url}) | {"COLUMNS": "200"})

    # `trouble` exits with 1 where there is some.
    assert done.code in ((0, 1) if words == ("trouble",) else (0,)), done.stderr
    assert _PAGES[page] in done.stdout


def test_name_of_an_address_cannot_add_a_command(visitor: Visitor) -> None:
    page = visitor.get("queues/x;id/messages").body

    assert "skipmq queue peek x;id" not in unescape(page)


def test_command_names_a_place_other_than_that_of_the_node(node: NodeProcess) -> None:
    visitor = Visitor(node.url, "210987654321", "eu-west-1")

    page = visitor.get("tasks").body

    assert "skipmq tasks --region eu-west-1 --account 210987654321</code>" in page
