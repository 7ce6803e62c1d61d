"""What names a queue: a name, a URL, an ARN."""

import pytest

from skipmq.protocol.names import Named, QueueNameError, in_url, is_valid, parse

ACCOUNT, REGION = "123456789012", "eu-central-1"


@pytest.mark.parametrize("name", ["orders", "orders.fifo", "mail-*", "", "of ours", "a" * 100])
def test_name_is_of_no_account_and_no_region(name: str) -> None:
    assert parse(name) == Named(name, None, None)


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_arn_names_account_and_region(partition: str) -> None:
    arn = f"arn:{partition}:sqs:{REGION}:{ACCOUNT}:orders.fifo"

    assert parse(arn) == Named("orders.fifo", ACCOUNT, REGION)


@pytest.mark.parametrize(
    ("base", "region"),
    [
        ("http://localhost:9324", None),
        ("http://127.0.0.1", None),
        ("HTTPS://SQS.example.com", None),
        ("https://sqs.shop-1.example.com", None),
        ("http://[::1]:9324", None),
        ("https://example.com/some/path", None),
        ("https://queue.amazonaws.com", None),
        ("https://sqs.eu-central-1.amazonaws.com", REGION),
        ("https://SQS.EU-Central-1.amazonaws.com", REGION),
        ("https://sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("https://sqs.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("https://eu-central-1.queue.amazonaws.com", REGION),
        ("http://sqs.eu-central-1.localhost.localstack.cloud:4566", REGION),
        ("https://user:word@sqs.eu-central-1.example.com:8443", REGION),
    ],
)
def test_url_names_the_account_and_by_some_hosts_the_region(base: str, region: str | None) -> None:
    assert parse(f"{base}/{ACCOUNT}/orders") == Named("orders", ACCOUNT, region)
    assert parse(f"{base}/{ACCOUNT}/orders/") == Named("orders", ACCOUNT, region)


def test_url_of_elasticmq_names_no_account() -> None:
    assert parse("http://localhost:9324/queue/orders") == Named("orders", None, None)


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost:9324/orders",
        "http://localhost:9324/12345/orders",
        f"http://localhost:9324/{ACCOUNT}/orders?x=1",
        f"ftp://localhost/{ACCOUNT}/orders",
        f"/{ACCOUNT}/orders",
        "orders:a",
    ],
)
def test_other_text_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(QueueNameError) as caught:
        parse(text)

    assert str(caught.value) == (
        f"{text!r} is not a queue: write its name, its URL http://HOST/ACCOUNT/NAME, or its ARN"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"arn:aws:sns:{REGION}:{ACCOUNT}:orders",
        f"arn:aws:sqs:{REGION}:12345:orders",
        f"arn:aws:sqs::{ACCOUNT}:orders",
        f"arn:aws:sqs:{REGION}:{ACCOUNT}:",
        f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders:more",
        "arn:",
    ],
)
def test_arn_of_something_else_is_refused_with_the_form_of_a_queue_s(text: str) -> None:
    with pytest.raises(QueueNameError) as caught:
        parse(text)

    assert str(caught.value) == (
        f"{text!r} is not the ARN of a queue: write arn:aws:sqs:REGION:ACCOUNT:NAME"
    )


def test_long_text_is_quoted_in_part() -> None:
    with pytest.raises(QueueNameError) as caught:
        parse("http://" + "x" * 10_000)

    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("a" * 80, True),
        ("a" * 81, False),
        ("a" * 75 + ".fifo", True),
        ("a" * 76 + ".fifo", False),
        (".fifo", False),
        ("orders.fifo.fifo", False),
        ("orders\n", False),
        ("", False),
    ],
)
def test_name_has_80_characters_at_most_with_its_suffix(name: str, valid: bool) -> None:
    assert is_valid(name) is valid


@pytest.mark.parametrize(
    "url", [f"/{ACCOUNT}/orders", f"ftp://sqs/a?b/{ACCOUNT}/orders/", f"http:///{ACCOUNT}/orders"]
)
def test_server_reads_the_last_two_parts_of_a_url_alone(url: str) -> None:
    assert in_url(url) == Named("orders", ACCOUNT, None)
