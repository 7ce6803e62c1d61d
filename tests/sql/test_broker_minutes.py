from support.postgres import Connection

MINUTES = "select kind, label, number from skipmq.broker_minutes(%s, %s, %s)"


def test_steps_have_sums_and_the_last_number_of_messages(
    owner: Connection, node: Connection
) -> None:
    owner.execute(
        "insert into skipmq.broker_minute select a, date_bin('5 minutes', now(), 'epoch')"
        " - make_interval(mins => 5 * n + m), k, l, 10 * n + m from generate_series(1, 2) n,"
        " generate_series(-4, 0) m, (values ('*', 'sent', ''), ('*', 'messages', ''),"
        " ('', 'condition', 'standbys'), ('other', 'sent', '')) x (a, k, l)"
    )

    def found(*accounts: str, minutes: int = 60, step: int = 5) -> list[tuple[str, str, int]]:
        return node.execute(MINUTES, ([*accounts], minutes, step)).fetchall()

    assert found("*") == [
        *(("messages", "", 16), ("sent", "", 90)),
        *(("messages", "", 6), ("sent", "", 40)),
    ]
    assert len(found("")) == 10
    assert found("nobody") == []
    # The number of messages holds until the next one.
    assert found("*", minutes=1, step=1) == [("messages", "", 6)]


def test_first_step_is_whole(owner: Connection, node: Connection) -> None:
    owner.execute(
        "insert into skipmq.broker_minute select '*', date_bin('5 minutes', now(), 'epoch')"
        " - make_interval(mins => m), 'sent', '', 1 from generate_series(1, 60) m"
    )

    steps = node.execute(MINUTES, (["*"], 30, 5)).fetchall()

    assert steps == [("sent", "", 5)] * 5
