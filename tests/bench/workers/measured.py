"""What the workers of this folder share: the work, and how it is measured."""

import json
import sys
import threading
import time
from collections.abc import Callable

CONCURRENCY = 8
WORK = "insert into public.effect (number) values (%s)"


class Stopwatch:
    """Time and this process's processor time from the first job to the last of `jobs`."""

    def __init__(self, jobs: int) -> None:
        self._left, self._lock, self._began = jobs, threading.Lock(), (0.0, 0.0)

    def begin(self) -> None:
        """Note that a job begins."""
        with self._lock:
            if not self._began[0]:
                self._began = (time.perf_counter(), time.process_time())

    def end(self) -> bool:
        """Note that a job is done; after the last, print what was measured and return True."""
        with self._lock:
            self._left -= 1
            if self._left:
                return False
            seconds = time.perf_counter() - self._began[0]
            processor = time.process_time() - self._began[1]
        # At once, since a worker may end its process when it is stopped.
        found = {"seconds": seconds, "processor": processor}
        print(json.dumps(found), flush=True)  # noqa: T201 - for who started it.
        return True


def main(fill: Callable[[str, int], None], work: Callable[[str, Stopwatch], None]) -> None:
    """Run `fill` or `work`, as the command line says: what, the URL and the number of jobs."""
    what, url, number = sys.argv[1:]
    if what == "fill":
        fill(url, int(number))
        return
    work(url, Stopwatch(int(number)))
