"""The command of a terminal that shows or does the same as a page."""

import shlex
from collections.abc import Mapping
from typing import NamedTuple

import flask

from skipmq.console.visit import current


class Twin(NamedTuple):
    """A command, and the options that take fields of the page's address or form.

    `{name}` in its words is the queue. `is_placed` says whether it takes a region and an account,
    `is_of_all` whether it shows all of them without these options.
    """

    words: str
    options: Mapping[str, str] = {}
    is_placed: bool = True
    is_of_all: bool = False


_PEEK = Twin("queue peek {name}", {"state": "--state", "order": "--order", "size": "--limit"})
_SEARCH = Twin(
    "queue search {name}",
    {
        "body": "--body", "path": "--path", "attribute": "--attribute", "value": "--value",
        "receives": "--receives", "failure": "--failure",
    },
)  # fmt: skip
_AUDIT = Twin(
    "audit",
    {
        "queue": "--queue", "key": "--key", "action": "--action", "outcome": "--outcome",
        "by": "--by", "since": "--since", "until": "--until", "changes": "--changes",
    },
    is_placed=False,
)  # fmt: skip
_GROUPS = Twin("queue groups {name}", {"group": "--group"})
_REDRIVE = Twin("queue redrive {name}", {"destination": "--to", "rate": "--rate"})
# Of a queue that is no dead-letter queue, and of a standard queue.
_OTHER = {
    _REDRIVE.words: Twin("queue tasks {name}"),
    _GROUPS.words: Twin("queue pause {name} --list"),
}
_TWINS = {
    "overview": Twin("trouble", is_placed=False),
    "queues": Twin("queue stats", {"sort": "--order", "q": "--search"}, is_of_all=True),
    "create": Twin("queue create NAME"),
    "dead_letters": Twin("queue stats --order dead-lettered", {"q": "--search"}, is_of_all=True),
    "database": Twin("doctor", is_placed=False),
    "sessions": Twin("sessions", {"partition": "--partition"}),
    "end_session": Twin("sessions", {"partition": "--partition"}),
    "nodes": Twin("nodes"),
    "all_tasks": Twin("tasks"),
    "cancel_task": Twin("tasks"),
    "topics": Twin("topic list"),
    "topic": Twin("topic show {name}"),
    "publish": Twin("topic show {name}"),
    "schedules": Twin("schedule list"),
    "create_schedule": Twin("schedule list"),
    "schedule": Twin("schedule show {name}"),
    "change_schedule": Twin("schedule show {name}"),
    "access_keys": Twin("keys list", is_placed=False),
    "audit": _AUDIT,
    "queue": Twin("queue show {name}"),
    "messages": _PEEK,
    "transfer": _PEEK,
    "tail": Twin("queue tail {name}"),
    "search": _SEARCH,
    "start_task": _SEARCH,
    "timeline": Twin("queue timeline {name} {message}"),
    "consumers": Twin("queue consumers {name}"),
    "groups": _GROUPS,
    "release_groups": _GROUPS,
    "pause_group": _GROUPS,
    "charts": Twin("queue stats {name}"),
    "send": Twin("queue send {name} BODY"),
    "settings": Twin("queue show {name}"),
    "set_attributes": Twin("queue show {name}"),
    "redrive": _REDRIVE,
    "start_redrive": _REDRIVE,
    "removal": Twin("queue purge {name}"),
    "purge": Twin("queue purge {name}"),
    "delete": Twin("queue delete {name}"),
}


def command(*, has_redrive: bool) -> str:
    """Return the command of the page that is shown, or nothing if there is none."""
    request = flask.request
    view = (request.endpoint or "").removeprefix("console.")
    name = (request.view_args or {}).get("name", "")
    twin = _TWINS.get(view)
    # A search by age has no command.
    is_aged = twin is _SEARCH and request.values.get("minutes")
    if twin is None or is_aged or (view == "queues" and not current().may_list()):
        return ""
    if (twin is _REDRIVE and not has_redrive) or (twin is _GROUPS and not name.endswith(".fifo")):
        twin = _OTHER[twin.words]
    message = request.values.get("message", "").strip()
    words = [
        "skipmq",
        twin.words.format(name=shlex.quote(name), message=shlex.quote(message or "MESSAGE_ID")),
    ]
    if view == "send" and name.endswith(".fifo"):
        words.append("--group ID")
    if twin is _SEARCH and request.values.get("none"):
        words.append("--failure ''")
    # Without a choice a page shows another number, or order, than the command.
    if view == "messages" and not request.values.get("size"):
        words.append("--limit 20")
    if view == "queues" and not request.values.get("sort"):
        words.append("--order trouble")
    for field, option in twin.options.items():
        value = request.values.get(field, "").strip()
        if option == "--changes":
            words += [option] * bool(value)
        elif value:
            words += [option, shlex.quote(value)]
    return " ".join([*words, *(_place(is_of_all=twin.is_of_all) if twin.is_placed else [])])


def _place(*, is_of_all: bool) -> list[str]:
    """Return the options of a region and an account, unless they are those of the node."""
    own, settings = current().identity, current().broker.node.settings
    options = []
    if is_of_all or own.region != settings.region:
        options += ["--region", own.region]
    if is_of_all or own.account != settings.account:
        options += ["--account", own.account]
    return options
