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

ALL: tuple[Page, ...] = (
    access.add,
    overview.add,
    runbook.add,
    queues.add,
    queue.add,
    dead_letters.add,
    database.add,
    schedules.add,
    topics.add,
    messages.add,
    search.add,
    charts.add,
    send.add,
    settings.add,
)
