"""The views of the console, in a module for each page."""

from skipmq.console.pages import (
    audit,
    charts,
    completion,
    create,
    database,
    dead_letters,
    matching,
    messages,
    places,
    queues,
    redrive,
    removal,
    send,
    settings,
    sign_in,
    tail,
    timeline,
)
from skipmq.console.site import Page

ALL: tuple[Page, ...] = (
    sign_in.add,
    queues.add,
    dead_letters.add,
    database.add,
    audit.add,
    create.add,
    messages.add,
    matching.add,
    charts.add,
    tail.add,
    timeline.add,
    send.add,
    settings.add,
    redrive.add,
    removal.add,
    completion.add,
    places.add,
)
