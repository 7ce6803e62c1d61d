"""The consumers that run through the faults, in processes of their own: `skipmq work`."""

import os
from pathlib import Path
from typing import TypedDict

from skipmq import App, Context, Queue, Retry

RUN = os.environ.get("WORKED_RUN", "")  # noqa: TID251 - the tests' own words to their processes.
ELSEWHERE = Path(os.environ.get("WORKED_ELSEWHERE", os.devnull))  # noqa: TID251
EFFECT = "insert into public.worked (run, queue, grp, number) values (%s, %s, %s, %s)"


class Job(TypedDict):
    """Work of a group, with the number that its producer gave it."""

    group: str
    number: int


STANDARD = Queue(f"{RUN}worked", Job)
FIFO = Queue(f"{RUN}worked.fifo", Job)
app = App()
# Another try comes soon, so that a run is not over before its messages are.
SOON = Retry.backoff(0.2, most=2)


@app.consumer(STANDARD, concurrency=4, visibility=5, retry=SOON)
def work(job: Job, context: Context) -> None:
    """Do something here, which is undone together with the delete, and something elsewhere."""
    with context.transaction() as tx:
        tx.execute(EFFECT, (RUN, STANDARD.name, job["group"], job["number"]))
        note_elsewhere(STANDARD.name, job)


@app.consumer(FIFO, concurrency=4, visibility=5, retry=SOON)
async def awork(job: Job, context: Context) -> None:
    """Do the same as a coroutine."""
    async with context.transaction() as tx:
        await tx.execute(EFFECT, (RUN, FIFO.name, job["group"], job["number"]))
        note_elsewhere(FIFO.name, job)


def note_elsewhere(queue: str, job: Job) -> None:
    """Append a line, which no rollback takes back."""
    file = os.open(ELSEWHERE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{queue} {job['group']} {job['number']}\n".encode())
    finally:
        os.close(file)
