"""The case of the console: what it costs a queue that somebody opens its pages."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from statistics import median
from threading import Event, Thread
from uuid import uuid4

from bench import peers
from bench.load import Failed, Outcome, Shape
from bench.record import Pair
from bench.run import Measure, Run
from support.http import ACCOUNT
from support.visitor import Visitor

# Those of the whole broker, with the mark of running tasks that each has, and those of a queue. A
# text and a message that were never sent are looked for as far as a search goes.
_PAGES = (
    *("overview", "queues", "queues?sort=oldest", "dead-letters", "database", "nodes", "tasks"),
    *("tasks/running", "schedules", "keys", "audit"),
)
_OF_QUEUE = (
    *(
        "/messages",
        "/overview",
        "/consumers",
        "/charts",
        "/charts?minutes=10080",
        "/tail",
        "/settings",
    ),
    *("/redrive", "/failures", "/search?body={id}", "/timeline?message={id}"),
)
_HOME = f"/console/us-east-1/{ACCOUNT}/"
# Seconds from page to page.
_PACE = 1.0
_UNAVAILABLE = 503


class Looking:
    """Somebody who opens one page after another, one a second, in a thread of its own."""

    def __init__(self, url: str, queue: str) -> None:
        self.milliseconds: list[float] = []
        # Pages that gave up reading rather than be in the way of clients.
        self.refused = 0
        self.failure = ""
        self._visitor = Visitor(url)
        self._pages = cycle(addresses(queue).values())
        self._over = Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Open pages for as long as the block runs. Raises Failed when one cannot be opened."""
        self._over.clear()
        thread = Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if self.failure:
            raise Failed(self.failure)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                took, status = _opened(self._visitor, next(self._pages))
            except (Failed, OSError) as error:
                self.failure = str(error)
                return
            self.milliseconds.append(took)
            self.refused += status == _UNAVAILABLE
            self._over.wait(max(0.0, _PACE - took / 1000))


def addresses(queue: str) -> dict[str, str]:
    """Return the addresses of all pages by their names; `{id}` is new each time."""
    pages = {page: page for page in _PAGES} | {"overview": _HOME}
    return pages | {f"queue{page.split('{')[0]}": f"queues/{queue}{page}" for page in _OF_QUEUE}


def _opened(visitor: Visitor, page: str) -> tuple[float, int]:
    """Open a page; return how many milliseconds that took, and the status: 200 or 503.

    Raises Failed and OSError.
    """
    began = time.perf_counter()
    status = visitor.get(page.format(id=uuid4())).status
    if status not in {200, _UNAVAILABLE}:
        raise Failed(f"the page {page} was answered with {status}")
    return (time.perf_counter() - began) * 1000, status


def console(run: Run) -> None:
    """Life cycles on a queue with a backlog while pages of it are opened, against none opened."""
    run.absent = {}
    messages = run.form.sizes["standard"]
    with ExitStack() as stack:
        database = run.database(stack)
        node = stack.enter_context(peers.skipmq(database))
        queue = node.queue()
        name = queue.rpartition("/")[2]
        run.fill(database, queue, messages)
        alone = run.cycles(node, Shape(), queue)
        looking = Looking(node.url, name)
        measures = {"nobody looks": alone, "pages opened": _watched(alone, looking)}
        pairs = [Pair("pages opened", "nobody looks", 0.97)]
        title = f"{messages:,} messages wait, a page a second"
        run.compare(title, "messages/s", measures, "nobody looks", pairs=pairs)
        # Page by page, with no load beside them.
        run.compare(
            "pages without load", "ms", _each(node.url, name), "queues", less_is_better=True
        )


def _watched(measure: Measure, looking: Looking) -> Measure:
    def measured(seconds: int) -> Outcome:
        looking.milliseconds.clear()
        looking.refused = 0
        with looking.running():
            outcome = measure(seconds)
        found = looking.milliseconds
        worst = {"worst_ms": max(found), "pages": len(found), "refused": looking.refused}
        return Outcome(outcome.rate, outcome.details | worst)

    return measured


def _each(url: str, queue: str) -> dict[str, Measure]:
    """Return a measure of each page: the median of its milliseconds while it is opened again."""
    visitor = Visitor(url)

    def of(page: str) -> Measure:
        def measured(seconds: int) -> Outcome:
            took = []
            until = time.perf_counter() + seconds / 4
            while not took or time.perf_counter() < until:
                milliseconds, status = _opened(visitor, page)
                if status == _UNAVAILABLE:
                    raise Failed(f"the page {page} was answered with {status}, without load")
                took.append(milliseconds)
            return Outcome(median(took), {"worst_ms": max(took), "pages": len(took)})

        return measured

    return {name: of(page) for name, page in addresses(queue).items()}
