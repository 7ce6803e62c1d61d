"""A consumer by SQL whose process is killed with what it has, before or after its commit."""

import json
import subprocess
import sys
import time

import psycopg

from cluster.history import Op
from concurrency.clients import User
from concurrency.transactions import shown_row
from support.postgres import as_node
from support.sql import number

_HIDDEN = 2
_CONSUMER = """
import json, sys, time, psycopg
name, commits, queue, fifo = sys.argv[2:]
connection = psycopg.connect(sys.argv[1], autocommit=commits == "1", application_name=name)
cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
rows = cursor.execute(
    f"select * from skipmq.receive{fifo}_messages(skipmq.queue_id(%s), 2, 2)", [queue]).fetchall()
print(json.dumps([row for row in rows if row["id"] is not None], default=str), flush=True)
time.sleep(60)
"""
_CONNECTED = "select count(*) from pg_stat_activity where application_name = %s"


class KilledConsumer(User):
    """Has processes receive, one after the other, and kills them."""

    def run(self) -> None:
        with psycopg.connect(self.world.database, autocommit=True) as connection:
            while self.world.open():
                self._run_one(connection)
                self.nap(0.5)
        self.close()

    def _run_one(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        queue, commits = self.a_queue(), self.chance.random() < 0.5
        name = f"{self.name}-{self.world.seed}-{self.new_value()}"
        words = [name, str(int(commits)), queue.name, "_fifo" if queue.fifo else ""]
        begun = time.monotonic()
        command = [sys.executable, "-c", _CONSUMER, as_node(self.world.database), *words]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            ended = time.monotonic()
            process.kill()
        while number(connection, _CONNECTED, name):
            time.sleep(0.01)
        receive = Op("receive", "ok", self.name, begun, ended, queue.name, visibility=_HIDDEN)
        if commits and line:
            rows = enumerate(json.loads(line))
            found = [shown_row(receive, place, row) for place, row in rows]
            self.world.history.add(*found)
        else:
            self.note("receive", begun, "fail", queue.name, error="killed before its commit")
