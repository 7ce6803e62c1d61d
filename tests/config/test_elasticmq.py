"""An elasticmq.conf as queues of ours, and what is said of the rest."""

from pathlib import Path

import pytest

from skipmq.config import queue_files
from skipmq.config.declarations import DeclaredQueue, DeclaredSchedule, Found, UnreadableError
from skipmq.config.imports import elasticmq
from support.imports import DOCUMENTED

KEPT = {"MessageRetentionPeriod": "1209600"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "elasticmq.conf"


def read(file: Path, text: str) -> Found:
    file.write_text(text)
    return elasticmq.read(file)


def said(found: Found, file: Path) -> dict[str, str]:
    """Return what is said of each key, by its path."""
    return {each.where.removeprefix(f"{file}: "): each.remedy for each in found.differences}


def test_documented_file_is_read_whole(file: Path) -> None:
    found = read(file, DOCUMENTED)

    assert found.queues == (
        DeclaredQueue(
            "queue1",
            {
                "VisibilityTimeout": "10",
                "DelaySeconds": "5",
                "ReceiveMessageWaitTimeSeconds": "0",
                "RedrivePolicy": (
                    '{"deadLetterTargetArn":"queue1-dead-letters","maxReceiveCount":3}'
                ),
            }
            | KEPT,
            tags={"tag1": "tagged1", "tag2": "tagged2"},
        ),
        DeclaredQueue("queue1-dead-letters", KEPT),
        DeclaredQueue("audit-queue-name", KEPT),
        DeclaredQueue("redirect-queue-name", KEPT),
    )
    assert found.settings == {"region": "elasticmq", "port": 9324}
    differences = said(found, file)
    assert set(differences) == {
        "rest-sqs.bind-hostname",
        "queues.queue1.copyTo",
        "queues.queue1.moveTo",
    }
    assert "redirect-queue-name itself" in differences["queues.queue1.moveTo"]


def test_fifo_queues_are_named_as_elasticmq_names_them(file: Path) -> None:
    found = read(
        file,
        """queues {
          payments { fifo = true, contentBasedDeduplication = on
                     deadLettersQueue { name = failed, maxReceiveCount = "5" } }
          "failed.fifo" { fifo = yes }
        }""",
    )

    payments, failed = found.queues
    assert payments.name == "payments.fifo"
    assert payments.attributes == KEPT | {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
        "RedrivePolicy": '{"deadLetterTargetArn":"failed.fifo","maxReceiveCount":5}',
    }
    assert failed == DeclaredQueue("failed.fifo", {"FifoQueue": "true"} | KEPT)
    assert said(found, file) == {
        "queues.payments": "the queue is payments.fifo: names of FIFO queues end in .fifo"
    }


def test_substitutions_includes_and_additions(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAIT", "7 seconds")
    monkeypatch.delenv("MISSING", raising=False)
    (file.parent / "base.conf").write_text("base { delay = 2m, tags { team = shop } }\n")
    found = read(
        file,
        """include "base.conf"
        include file("there-is-none.conf")
        queues.orders = ${base} { receiveMessageWait = 1 s }
        queues.orders.receiveMessageWait = ${?WAIT}
        queues.orders.receiveMessageWait = ${?MISSING}
        queues.orders.tags.stage = te"st"
        aws { region = eu-central-1, accountId = "123456789012" }
        pekko.http.server.parsing.max-uri-length = 256k
        """,
    )

    (orders,) = found.queues
    assert orders.attributes == KEPT | {"DelaySeconds": "120", "ReceiveMessageWaitTimeSeconds": "7"}
    assert orders.tags == {"team": "shop", "stage": "test"}
    assert found.settings == {"region": "eu-central-1", "account": "123456789012"}
    assert found.differences == ()


def test_file_that_elasticmq_keeps_its_queues_in_is_read(file: Path) -> None:
    found = read(
        file,
        """queues {
 "pd.fifo" {contentBasedDeduplication=false,copyTo="",defaultVisibilityTimeout=30000,fifo=true}
 "p.fifo" {deadLettersQueue{maxReceiveCount=3,name=pd},delay=3000,fifo=true,moveTo="",tags{a=b}}
}""",
    )

    assert found.queues[0].attributes["VisibilityTimeout"] == "30"
    assert found.queues[1].attributes["DelaySeconds"] == "3"
    assert '"pd.fifo"' in found.queues[1].attributes["RedrivePolicy"]
    assert found.differences == ()


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("host = localhost, port = 19324", None),
        ('host = "*", context-path = "sqs"', None),
        ("host = elasticmq", "http://elasticmq:9324"),
        ("host = sqs.example.com, port = 443, protocol = https", "https://sqs.example.com:443"),
        ("host = localhost, context-path = /sqs", "http://localhost:9324/sqs"),
    ],
)
def test_address_is_the_base_of_urls_where_requests_do_not_say(
    file: Path, address: str, url: str | None
) -> None:
    given = f"node-address {{ {address} }}\n"

    assert read(file, given).settings.get("public_url") == url
    generated = read(file, given + "generate-node-address = true").settings
    assert "public_url" not in generated


def test_what_has_no_counterpart_is_named_with_what_to_do(file: Path) -> None:
    found = read(
        file,
        """include classpath("queues.conf")
        rest-sqs { sqs-limits = relaxed, enabled = false, auto-create-queues { enabled = true } }
        rest-stats { enabled = true, bind-port = 9325 }
        messages-storage { enabled = true, uri = "jdbc:h2:/data/emq", password = "Pl4nted" }
        queues-storage { enabled = true, path = "/data/queues.conf" }
        node-adress { host = other }
        queues {
          orders { defaultVisiblityTimeout = 3 s, delay = 2500, contentBasedDeduplication = true }
        }""",
    )

    differences = said(found, file)
    assert set(differences) == {
        "include classpath('queues.conf')",
        "rest-sqs.sqs-limits",
        "rest-sqs.enabled",
        "rest-sqs.auto-create-queues",
        "rest-stats",
        "messages-storage.enabled",
        "queues-storage.enabled",
        "node-adress",
        "queues.orders.defaultVisiblityTimeout",
        "queues.orders.delay",
        "queues.orders.contentBasedDeduplication",
    }
    assert "did you mean node-address?" in differences["node-adress"]
    typo = differences["queues.orders.defaultVisiblityTimeout"]
    assert "did you mean defaultVisibilityTimeout?" in typo
    assert "2 seconds" in differences["queues.orders.delay"]
    assert "Pl4nted" not in repr(found.differences)


def test_section_unlike_any_known_one_is_named(file: Path) -> None:
    found = read(
        file,
        """services { queue { image = elasticmq } }
        auto-create-queues { enabled = true }
        shared { wait = 3 s }
        queues.orders.receiveMessageWait = ${shared.wait}
        """,
    )

    differences = said(found, file)
    assert set(differences) == {"services", "auto-create-queues"}
    assert "it is not a setting of ElasticMQ, and has no effect" in differences["services"]
    assert "create queues before they are used" in differences["auto-create-queues"]


@pytest.mark.parametrize(
    "text",
    [
        "queues {\n express.fifo { fifo = true\n delay = 5 s }\n express { delay = 1 s }\n}",
        "queues.express.fifo {\n fifo = true, delay = 5 s }\nqueues.express.delay = 1 s",
        "queues.express.fifo.fifo = true\nqueues.express.fifo.delay = 5 s\n"
        "queues.express.delay = 1 s",
    ],
)
def test_name_of_a_fifo_queue_needs_no_quotes(file: Path, text: str) -> None:
    found = read(file, text)

    express = DeclaredQueue("express", {"DelaySeconds": "1"} | KEPT)
    fifo = DeclaredQueue("express.fifo", {"FifoQueue": "true", "DelaySeconds": "5"} | KEPT)
    assert sorted(found.queues, key=lambda queue: queue.name) == [express, fifo]
    assert said(found, file) == {}


def test_fifo_queue_without_quotes_is_a_dead_letter_queue_too(file: Path) -> None:
    dead = "deadLettersQueue { name = express-dead.fifo, maxReceiveCount = 3 }"
    text = f"queues {{ express.fifo {{ fifo = true\n {dead} }}\n express-dead.fifo.fifo = on }}"

    found = read(file, text)

    assert {queue.name for queue in found.queues} == {"express.fifo", "express-dead.fifo"}
    policy = '{"deadLetterTargetArn":"express-dead.fifo","maxReceiveCount":3}'
    assert [q.attributes.get("RedrivePolicy") for q in found.queues] == [policy, None]


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        (
            "queues {\n a.fifo {\n  fifo = perhaps }\n}",
            "queues.a.fifo.fifo",
            "queues.a.fifo.fifo: write true or false",
        ),
        ("queues {\n a.fifo { }\n}", "queues.'a.fifo'", "write fifo = true"),
        (
            'queues {\n a.fifo { fifo = true }\n "a.fifo" { fifo = true }\n}',
            "queues.a.fifo",
            "two queues have the name a.fifo",
        ),
        (
            "queues {\n orders {\n}",
            "line 3",
            "not HOCON: check the braces, quotes and commas up to here",
        ),
        ("queues {\n orders { delay = 1 s ]\n}", "line 2", "not HOCON"),
        (
            "queues {\n orders { delay = ${?X}${NOWHERE} }\n}",
            "line 2",
            "${NOWHERE} is neither a key",
        ),
        ("\nqueues = 3", "queues", "write { } with its keys"),
        ("queues {\n orders = yes\n}", "queues.orders", "write { } with its keys"),
        ("queues {\n orders { delay = soon }\n}", "queues.orders.delay", "write 10 seconds"),
        ("queues {\n orders { delay = [1] }\n}", "queues.orders.delay", "write 10 seconds"),
        ("queues {\n orders { delay = true }\n}", "queues.orders.delay", "write 10 seconds"),
        (
            "queues {\n orders { delay = 20 minutes }\n}",
            "queues.orders.delay",
            "write 0 to 900 seconds",
        ),
        ("queues {\n orders { delay = -1 s }\n}", "queues.orders.delay", "write 0 to 900 seconds"),
        ("queues {\n orders {\n  fifo = perhaps }\n}", "queues.orders.fifo", "write true or false"),
        ("queues {\n orders { tags { a = [1] } }\n}", "queues.orders.tags.a", "write a text"),
        ('queues {\n "orders.fifo" { }\n}', "queues.'orders.fifo'", "write fifo = true"),
        ("queues {\n a.b { }\n}", "-", "not a key"),
        ('queues {\n "a b" { }\n}', "queues.'a b'", "up to 80 letters"),
        (
            "queues {\n a { fifo = true }\n a.fifo = true\n 'b' { }\n}",
            """queues."'b'\"""",
            "up to 80 letters",
        ),
        (
            'queues {\n a { fifo = true }\n "a.fifo" { fifo = true }\n}',
            "queues.a",
            "the name a.fifo: rename",
        ),
        (
            "queues {\n a { deadLettersQueue {\n name = b } }\n}",
            "queues.a.deadLettersQueue",
            "write name and maxReceiveCount",
        ),
        (
            "queues {\n a { deadLettersQueue { name = b, maxReceiveCount = 3 } }\n}",
            "queues.a.deadLettersQueue",
            "there is no dead-letter queue b: declare it",
        ),
        (
            "queues {\n a { deadLettersQueue { name = ded, maxReceiveCount = 3 } }\n dead { }\n}",
            "queues.a.deadLettersQueue",
            "there is no dead-letter queue ded: write dead?",
        ),
        (
            "queues {\n a { deadLettersQueue { name = b, maxReceiveCount = 0 } }\n b { }\n}",
            "queues.a.deadLettersQueue.maxReceiveCount",
            "a number from 1 to 1000",
        ),
        (
            "queues {\n a { deadLettersQueue { name = b, maxReceiveCount = 2 } }\n"
            " b { fifo = true }\n}",
            "queues.a.deadLettersQueue",
            "b.fifo is not: write another",
        ),
        ("rest-sqs {\n bind-port = 90000 }", "rest-sqs.bind-port", "a number from 0 to 65535"),
        ("rest-sqs {\n sqs-limits = lax }", "rest-sqs.sqs-limits", "write strict or relaxed"),
    ],
)
def test_error_is_one_sentence_with_the_file_and_the_key(
    file: Path, text: str, place: str, why: str
) -> None:
    if why == "not a key":
        found = read(file, text)
        assert "it is not a key of a queue" in str(found.differences[0])
        return
    with pytest.raises(UnreadableError) as caught:
        read(file, text)

    message = str(caught.value)
    assert message.startswith((f"{file}: {place}: ", f"{file}, {place}"))
    assert why in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\xff\xfe\x00", "is not text in UTF-8"),
        (b"[1, 2]", "write keys and values, not a list"),
        (b'include url("http://127.0.0.1:1/x")', "column 1: this is not HOCON (connection"),
        (
            b'include required("nowhere.conf")',
            "line 1, column 1: this is not HOCON (include",
        ),
    ],
)
def test_unreadable_file_is_one_sentence(file: Path, text: bytes | None, why: str) -> None:
    if text is not None:
        file.write_bytes(text)

    with pytest.raises(UnreadableError) as caught:
        elasticmq.read(file)

    assert str(file) in str(caught.value)
    assert why in str(caught.value)


def test_error_in_an_included_file_names_that_file(file: Path) -> None:
    included = file.parent / "queues.conf"
    included.write_text("queues {\n  orders { delay = }\n}\n")
    with pytest.raises(UnreadableError, match=r"queues\.conf, line 2, column"):
        read(file, 'x = 1\ninclude "queues.conf"\n')

    included.write_text("queues {\n\n  orders { delay = ${NOWHERE} }\n}\n")
    with pytest.raises(UnreadableError, match=r"queues\.conf, line 3: "):
        read(file, 'x = 1\ninclude "queues.conf"\n')


def test_topics_and_schedules_are_those_of_toml(file: Path) -> None:
    found = read(
        file,
        'queues { jobs { schedules { hourly { when = "every hour", body = { a = 1 } } }\n'
        '  topics { news { RawMessageDelivery = true, FilterPolicy = { a = ["x"] } }\n'
        '    "sport.fifo" { } } } }',
    )
    copied = file.with_suffix(".toml")
    copied.write_text(queue_files.write(found.queues))
    problems: list[str] = []

    (queue,) = found.queues
    assert queue.topics == {
        "news": {"RawMessageDelivery": "true", "FilterPolicy": '{"a": ["x"]}'},
        "sport.fifo": {},
    }
    assert queue.schedules == {"hourly": DeclaredSchedule(when="every hour", body={"a": 1})}
    assert queue_files.read(copied, problems).queues == found.queues
    assert found.differences == ()
    assert problems == []


def test_invalid_topic_is_refused(file: Path) -> None:
    with pytest.raises(UnreadableError, match=r"queues\.jobs: topics: Expected `object`"):
        read(file, "queues { jobs { topics { news = 1 } } }")
