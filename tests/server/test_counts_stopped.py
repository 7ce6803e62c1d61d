"""A database in which the changes of counts cannot be added up."""

import json

import psycopg

from support.commands import invoke
from support.http import NodeProcess, environment, eventually, extension

STOPPED = """
update skipmq.cluster set counted_to = clock_timestamp() - interval '20 minutes';
create function public.stopped() returns trigger language plpgsql as
  $$ begin raise exception 'stopped by a trigger'; end $$;
create trigger stopped before update of counted_to on skipmq.cluster
  for each row when (new.counted_to > old.counted_to) execute function public.stopped();
"""


def test_counts_that_stand_still_are_trouble_for_doctor_and_the_overview(database: str) -> None:
    def doctor() -> dict[str, str]:
        done = invoke(("doctor", "--json"), environment({"database_url": database}))
        (found,) = (each for each in json.loads(done.stdout)["checks"] if each["check"] == "counts")
        return dict(found)

    with psycopg.connect(database, autocommit=True) as owner:
        before = doctor()
        owner.execute(STOPPED.encode())
        stopped = doctor()
        with NodeProcess(database_url=database) as node:
            node.ready()
            troubles = eventually(lambda: extension(node.url, "GetOverview")["Troubles"])
            # The lines that describe a metric are there before the first value.
            (age,) = eventually(
                lambda: [
                    float(line.split()[-1])
                    for line in node.metrics().splitlines()
                    if line.startswith("skipmq_counts_age_seconds ")
                ]
            )
            found = eventually(lambda: each if not (each := doctor())["ok"] else None)
            owner.execute("drop function public.stopped cascade")
            owner.execute("select skipmq.fold_counts(true)")
            after = doctor()

    assert (before["ok"], before["detail"]) == (True, "not yet added up: no node has run")
    # No node runs that would.
    assert stopped["ok"]
    assert [each["Summary"] for each in troubles] == [
        "The counts of queues have not been updated for 20 minutes"
    ]
    assert age > 1200 - 1
    assert "a node runs: its log has the reason" in found["detail"]
    assert "its log has the reason" in found["remedy"]
    assert "stopped by a trigger" in node.log
    assert after["ok"]
