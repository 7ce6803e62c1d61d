import pytest

from skipmq.auth import credentials, identify
from skipmq.model import Identity

HEADER = (
    "AWS4-HMAC-SHA256 Credential={key}/20260101/{region}/sqs/aws4_request,"
    " SignedHeaders=host, Signature=0"
)
PRESIGNED = "Action=ListQueues&X-Amz-Credential={key}%2F20260101%2F{region}%2Fsqs%2Faws4_request"


@pytest.mark.parametrize(
    ("key", "region", "identity"),
    [
        ("AKIDEXAMPLE", "eu-west-1", Identity("000000000000", "eu-west-1", "000000000000")),
        ("123456789012", "us-east-1", Identity("123456789012", "us-east-1", "123456789012")),
        ("12345678901", "us-east-1", Identity("000000000000", "us-east-1", "000000000000")),
        ("1" * 13, "us-east-1", Identity("000000000000", "us-east-1", "000000000000")),
    ],
)
def test_credential_names_account_and_region(key: str, region: str, identity: Identity) -> None:
    assert identify(HEADER.format(key=key, region=region), "") == identity
    assert identify(None, PRESIGNED.format(key=key, region=region)) == identity


@pytest.mark.parametrize("header", [None, "", "Basic x", "AWS4-HMAC-SHA256 Credential=x"])
def test_request_without_credential_is_the_default_accounts(header: str | None) -> None:
    assert identify(header, "") == Identity()


def test_region_of_unreasonable_length_is_not_taken() -> None:
    assert identify(HEADER.format(key="k", region="x" * 33), "") == Identity()


def test_long_credentials_are_not_kept() -> None:
    """A cache of them would fill the memory of a node."""
    kept = credentials._kept.cache_info  # noqa: SLF001 - it shows nowhere else.
    before = kept().currsize

    for number in range(50):
        filler = f"{number}{'x' * 50_000}"
        authorization = HEADER.format(key=f"{filler} Credential=key", region="eu-west-1")
        assert identify(authorization, "").region == "eu-west-1"
        assert identify(None, f"{filler}&{PRESIGNED.format(key='key', region='eu-west-1')}")

    assert kept().currsize == before
