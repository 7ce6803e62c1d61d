from uuid import UUID

from support.postgres import Connection
from support.replays import ids, stage
from support.sql import number


def test_messages_are_staged_once(owner: Connection) -> None:
    first = stage(owner, 1, 2, 3)
    again = stage(owner, 3, 4)

    assert (first, again) == (3, 1)
    assert ids(owner) == [UUID(int=n) for n in (1, 2, 3, 4)]


def test_message_that_the_replay_sent_itself_is_no_source_of_it(owner: Connection) -> None:
    stage(owner, 1)

    itself = number(
        owner,
        "select skipmq.stage_replay('r', 'again', '{9}', array[%s::uuid], array[%s::uuid],"
        " '{null}', '{null}', '{}', '{x}')",
        UUID(int=9),
        UUID(int=1),
    )

    assert itself == 0
    assert ids(owner) == [UUID(int=1)]
