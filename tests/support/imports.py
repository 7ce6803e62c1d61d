"""What is imported, and the command that imports it."""

import json
from typing import Any

from support.commands import Done, invoke
from support.http import environment

# As in ElasticMQ's README.
DOCUMENTED = """include classpath("application.conf")

// What is the outside visible address of this ElasticMQ node
node-address {
    protocol = http
    host = localhost
    port = 9324
    context-path = ""
}
rest-sqs {
    enabled = true
    bind-port = 9324
    bind-hostname = "0.0.0.0"
    // Possible values: relaxed, strict
    sqs-limits = strict
}
generate-node-address = false
queues {
    queue1 {
        defaultVisibilityTimeout = 10 seconds
        delay = 5 seconds
        receiveMessageWait = 0 seconds
        deadLettersQueue {
            name = "queue1-dead-letters"
            maxReceiveCount = 3 // from 1 to 1000
        }
        fifo = false
        contentBasedDeduplication = false
        copyTo = "audit-queue-name"
        moveTo = "redirect-queue-name"
        tags {
            tag1 = "tagged1"
            tag2 = "tagged2"
        }
    }
    queue1-dead-letters { }
    audit-queue-name { }
    redirect-queue-name { }
}
"""
AWS = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def run(url: str, *words: str, code: int = 0, **variables: str) -> Done:
    """Run a command on a database; fail unless it ends with a code."""
    own = environment({"database_url": url}) | AWS | {"COLUMNS": "200"}
    done = invoke(words, own | variables)
    assert done.code == code, done.stdout + done.stderr
    return done


def shown(url: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(url, "queue", "show", name, "--json").stdout)
    return found
