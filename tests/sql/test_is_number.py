from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skipmq.actions import checks
from support.postgres import Connection
from support.sql import number

ODD = [
    "",
    ".",
    "+",
    "e5",
    "1e",
    "1e+",
    ".e1",
    "0x1",
    "NaN",
    "Infinity",
    "1_0",
    " 1",
    "1\n",
    "\uff11",
]
ZEROS = st.integers(0, 130).map("0".__mul__)
DIGITS = st.text("0123456789", max_size=40)
EXPONENTS = st.sampled_from(["", "e", "E+"]) | st.integers(-260, 260).map("e{}".format)


@example("1e126")
@example("1e127")
@example("9" * 38 + "e89")
@example("1e-128")
@example("9.9e-129")
@example("0e999999999999999999")
@example("1e99999999999999999999")
@example("1e-00000000000000000000001")
@given(
    st.builds(
        "{}{}{}{}{}{}".format,
        st.sampled_from(["", "", "+", "-", "--"]),
        DIGITS,
        st.sampled_from(["", ".", ".", ".."]),
        ZEROS,
        DIGITS,
        EXPONENTS,
    )
    | st.sampled_from(ODD)
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_number_is_what_the_nodes_take(owner: Connection, text: str) -> None:
    assert number(owner, "select skipmq.is_number(%s)", text) is checks.is_number(text)


def test_syntax_of_texts_in_the_session_changes_nothing(owner: Connection) -> None:
    owner.execute("set standard_conforming_strings = off")

    assert number(owner, "select skipmq.is_number(%s)", "1.2e3")
    assert not number(owner, "select skipmq.is_number(%s)", "1x2")
