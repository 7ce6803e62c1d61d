import pytest

from skipmq.auth import credentials
from skipmq.auth.credentials import identify
from skipmq.protocol.identity import Identity

HEADER = (
    "AWS4-HMAC-SHA256 Credential={key}/20260101/{region}/sqs/aws4_request,"
    " SignedHeaders=host, Signature=0"
)
PRESIGNED = "Action=ListQueues&X-Amz-Credential={key}%2F20260101%2F{region}%2Fsqs%2Faws4_request"


@pytest.mark.parametrize(
    ("key", "region", "identity"),
    [
        ("AKIDEXAMPLE", "eu-west-1", Identity("000000000000", "eu-west-1", "000000000000")),
        ("AKIDEXAMPLE", "us-gov-west-1", Identity("000000000000", "us-gov-west-1", "000000000000")),
        ("123456789012", "us-east-1", Identity("123456789012", "us-east-1", "123456789012")),
        ("12345678901", "us-east-1", Identity("000000000000", "us-east-1", "000000000000")),
        ("1" * 13, "us-east-1", Identity("000000000000", "us-east-1", "000000000000")),
    ],
)
def test_credential_names_the_account_and_the_region(
    key: str, region: str, identity: Identity
) -> None:
    assert identify(HEADER.format(key=key, region=region), "") == identity
    assert identify(None, PRESIGNED.format(key=key, region=region)) == identity
    assert identify(HEADER.format(key=key, region=region), "", "eu-north-1") == identity


@pytest.mark.parametrize("region", ["elasticmq", "local", "x", "us-east", "us-east-1a", "1"])
def test_region_without_the_form_of_aws_is_the_nodes(region: str) -> None:
    header = HEADER.format(key="123456789012", region=region)

    found = identify(header, "", "eu-north-1")

    assert (found.account, found.region) == ("123456789012", "eu-north-1")


@pytest.mark.parametrize("header", [None, "", "Basic x", "AWS4-HMAC-SHA256 Credential=x"])
def test_request_without_credential_is_the_default_accounts(header: str | None) -> None:
    assert identify(header, "") == Identity()
    assert identify(header, "", "eu-north-1") == Identity(region="eu-north-1")


def test_request_of_no_account_is_the_node_s() -> None:
    own = Identity("210987654321", "us-east-1", "210987654321")

    assert identify(None, "", account=own.account) == own
    header = HEADER.format(key="AKIDEXAMPLE", region="us-east-1")
    assert identify(header, "", account=own.account) == own
    header = HEADER.format(key="123456789012", region="eu-west-1")
    assert identify(header, "", account=own.account).account == "123456789012"


def test_region_of_unreasonable_length_is_not_taken() -> None:
    assert identify(HEADER.format(key="k", region="x" * 33), "") == Identity()


@pytest.mark.parametrize(
    "credential",
    [
        "123456789012/20260101/us-east-1/sqs",
        "123456789012/20260101/us-east-1/s3/aws4_request",
        "123456789012/2026-01-01/us-east-1/sqs/aws4_request",
        "123456789012/20260101/us_east/sqs/aws4_request",
        "/20260101/us-east-1/sqs/aws4_request",
        "Credential=" * 20,
        "1%2F" * 50,
    ],
)
def test_malformed_credential_is_the_default_accounts(credential: str) -> None:
    assert identify(f"AWS4-HMAC-SHA256 Credential={credential}, Signature=0", "") == Identity()
    assert identify(None, f"X-Amz-Credential={credential}") == Identity()


def test_credential_in_the_query_is_read_escaped_or_not_and_in_any_case() -> None:
    wanted = Identity("123456789012", "eu-west-1", "123456789012")
    plain = "123456789012/20260101/eu-west-1/sqs/aws4_request"

    for credential in (plain, plain.replace("/", "%2F"), plain.replace("/", "%2f", 2)):
        assert identify(None, f"x=y&x-amz-CREDENTIAL={credential}&z=1") == wanted
        assert identify("Basic x", f"X-Amz-Credential={credential}") == wanted


def test_long_credentials_are_the_default_accounts_and_not_cached() -> None:
    """A cache of them would fill the memory of a node."""
    cache_info = credentials._parse_cached.cache_info  # noqa: SLF001 - it shows nowhere else.
    before = cache_info().currsize

    for number in range(50):
        key = f"{number}{'x' * 50_000}"
        assert identify(HEADER.format(key=key, region="eu-west-1"), "") == Identity()
        assert identify(None, PRESIGNED.format(key=key, region="eu-west-1")) == Identity()

    assert cache_info().currsize == before


def test_credential_after_a_long_text_is_read() -> None:
    filler, key = "Credential=" * 5_000, "123456789012"

    assert identify(HEADER.format(key=filler + key, region="eu-west-1"), "").account == key
    query = f"{filler}&{PRESIGNED.format(key=key, region='eu-west-1')}"
    assert identify(None, query).account == key
