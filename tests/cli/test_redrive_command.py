"""The redrive command: what it asks, and what it says of messages that stay."""

import json

from support.commands import run
from support.postgres import as_node


def test_redrive_asks_first_and_says_which_messages_stay_and_why(
    lent: str,
) -> None:
    url = as_node(lent)
    policy = '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":1}'
    run("queue", "create", "dead", database_url=url)
    run("queue", "create", "work", "-a", f"RedrivePolicy={policy}", database_url=url)
    run("queue", "send", "dead", "now", database_url=url)
    run("queue", "send", "dead", "later", "--delay", "900", database_url=url)
    words = ("queue", "redrive", "dead", "--to", "work")

    declined = run(*words, code=1, given="n\n", database_url=url)
    kept = run("queue", "peek", "dead", "--state", "visible", database_url=url)
    first = json.loads(run(*words, "--yes", "--json", database_url=url))
    second = run(*words, given="y\n", database_url=url)

    assert "no reason was left by a consumer" in declined
    assert "to work, at most 100 a second?" in declined
    assert "nothing was moved" in declined
    assert "now" in kept
    assert first["moved"] == 1
    assert first["stayed"] == {"in_flight": 0, "delayed": 1, "visible": 0}
    assert "still in dead: 1 delayed" in second
