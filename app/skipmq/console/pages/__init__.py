"""The views of the console, in a module for each subject."""

from skipmq.console.pages import (
    access,
    charts,
    database,
    dead_letters,
    groups,
    lifecycle,
    messages,
    overview,
    queue,
    queues,
    runbook,
    schedules,
    search,
    send,
    settings,
    tasks,
    timeline,
    topics,
)
from skipmq.console.site import Page

ALL: tuple[Page, ...] = (
    access.add,
    overview.add,
    runbook.add,
    queues.add,
    queue.add,
    groups.add,
    dead_letters.add,
    database.add,
    tasks.add,
    schedules.add,
    topics.add,
    lifecycle.add,
    messages.add,
    search.add,
    charts.add,
    timeline.add,
    send.add,
    settings.add,
)
