from uuid import RFC_4122, UUID

from skipmq.protocol.message import new_uuid

DIGITS = set("0123456789abcdef")


def test_ids_are_random_uuids_in_their_usual_text() -> None:
    made = [new_uuid() for _ in range(1_000)]

    assert {(UUID(each).version, UUID(each).variant) for each in made} == {(4, RFC_4122)}
    assert [str(UUID(each)) for each in made] == made


def test_each_digit_takes_all_its_values() -> None:
    columns = list(zip(*(new_uuid() for _ in range(10_000)), strict=True))

    for place, column in enumerate(columns):
        expected = {8: "-", 13: "-", 14: "4", 18: "-", 19: "89ab", 23: "-"}.get(place)
        assert set(column) == (DIGITS if expected is None else set(expected)), place


def test_no_id_is_given_twice() -> None:
    made = [new_uuid() for _ in range(10_000)]

    assert len(set(made)) == len(made)
