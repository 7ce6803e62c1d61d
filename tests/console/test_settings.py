"""What the form of a queue's attributes sends when nothing was changed in it."""

from html.parser import HTMLParser

import pytest

from support.forms import attributes
from support.http import NodeProcess, client
from support.visitor import Visitor


class _Form(HTMLParser):
    """The fields of a page's first form of attributes, as a browser sends them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sent: dict[str, str] = {}
        self._chosen = self._text = ""
        self._is_form = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._is_form = found.get("action", "").endswith("/settings")
        elif not self._is_form:
            return
        elif tag == "input" and found.get("type") != "submit":
            self.sent[found["name"]] = found.get("value", "")
        elif tag == "select":
            self._chosen = found["name"]
        elif tag == "option" and (self._chosen not in self.sent or "selected" in found):
            self.sent[self._chosen] = found["value"]
        elif tag == "textarea":
            self._text = found["name"]
            self.sent[self._text] = ""

    def handle_data(self, data: str) -> None:
        if self._text:
            self.sent[self._text] += data

    def handle_endtag(self, tag: str) -> None:
        self._text = ""
        self._is_form = self._is_form and tag != "form"


@pytest.mark.parametrize("name", ["untouched", "untouched.fifo"])
def test_form_that_was_not_touched_changes_nothing(node: NodeProcess, name: str) -> None:
    sqs, visitor = client(node.url), Visitor(node.url)
    kind = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    queue = sqs.create_queue(QueueName=name, Attributes=kind)["QueueUrl"]
    path = f"queues/{name}/settings"
    form = _Form(visitor.get(path).body).sent
    assert form["VisibilityTimeout"] == "30"
    before = attributes(sqs, queue)

    assert visitor.post(path, form).status == 303

    assert "No changes." in visitor.get(path).body
    assert attributes(sqs, queue) == before
