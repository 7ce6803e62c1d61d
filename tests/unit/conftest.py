"""What the codec tests share: requests, AWS's own service models, values that fit a shape."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from skipmq.protocol import shapes
from skipmq.protocol.call import Request
from support.http import QUERY_MODEL

# Characters that XML 1.0 and a UTF-8 encoded JSON document can both hold.
TEXT = st.text(
    st.characters(min_codepoint=32, exclude_categories=["Cs"], exclude_characters="\ufffe\uffff")
    | st.sampled_from("\t\n\r\"&<>' %+.="),
    max_size=12,
)
SCALARS: Mapping[str, SearchStrategy[Any]] = {
    "string": TEXT,
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "blob": st.binary(max_size=12),
}

Ask = Callable[..., Request]
Allowed = Callable[..., SearchStrategy[Any]]


@pytest.fixture(scope="session")
def ask() -> Ask:
    """Return a maker of requests."""

    def make(
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        path: str = "/",
        query: str = "",
        method: str = "POST",
    ) -> Request:
        return Request(
            method=method,
            path=path,
            headers={name.lower(): value for name, value in (headers or {}).items()},
            query=query,
            body=body,
            base_url="http://localhost:9324",
            request_id="4f1c3c1e-request",
        )

    return make


@pytest.fixture(scope="session")
def allowed() -> Allowed:
    """Return the strategy of the values that fit a shape; lists and maps of a least size."""
    return _allowed


def _allowed(
    shape: shapes.Shape, *, least_list: int = 0, least_map: int = 0
) -> SearchStrategy[Any]:
    def inner(member: shapes.Shape) -> SearchStrategy[Any]:
        return _allowed(member, least_list=least_list, least_map=least_map)

    match shape:
        case shapes.Scalar(kind):
            return SCALARS[kind]
        case shapes.List(element):
            return st.lists(inner(element), min_size=least_list, max_size=3)
        case shapes.Map(value):
            return st.dictionaries(TEXT, inner(value), min_size=least_map, max_size=3)
        case shapes.Structure(members, required):
            return st.fixed_dictionaries(
                {name: inner(member) for name, member in members.items() if name in required},
                optional={
                    name: inner(member) for name, member in members.items() if name not in required
                },
            )


@pytest.fixture(scope="session")
def query_model_path() -> Path:
    """Return the folder of the service models of the last botocore that spoke the Query wire."""
    if not QUERY_MODEL.is_dir():
        pytest.fail(f"{QUERY_MODEL} is missing: run `make clients`")
    return QUERY_MODEL


@pytest.fixture(scope="session")
def json_model() -> ServiceModel:
    """Return AWS's present model of SQS."""
    return ServiceModel(Loader().load_service_model("sqs", "service-2"), "sqs")


@pytest.fixture(scope="session")
def query_model(query_model_path: Path) -> ServiceModel:
    """Return AWS's last model of SQS on the Query wire."""
    loader = Loader(extra_search_paths=[str(query_model_path)], include_default_search_paths=False)
    return ServiceModel(loader.load_service_model("sqs", "service-2"), "sqs")
