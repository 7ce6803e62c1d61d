"""The views of the console, in a module for each subject."""

from skipmq.console.pages import (
    access,
    charts,
    database,
    dead_letters,
    messages,
    overview,
    queue,
    queues,
    runbook,
    schedules,
    search,
    send,
    settings,
    topics,
)
from skipmq.console.site import Page

_MODULES = (
    *(access, overview, runbook, queues, queue, dead_letters, database, schedules, topics),
    *(messages, search, charts, send, settings),
)
ALL: tuple[Page, ...] = tuple(each.add for each in _MODULES)
