"""The queues and their messages in Django's admin; nothing can be changed there."""

import json
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import DataError
from django.http import Http404
from django.template.response import TemplateResponse
from django.urls import path

from skipmq import Queue as Target
from skipmq.client.errors import ClientError
from skipmq.client.message import plain_attributes
from skipmq.django import configuration, peeking
from skipmq.django.models import Queue

_QUEUES, _MESSAGES = 100, 50
# Bodies and attributes of a page, in bytes; the message that exceeds it is the last.
_PAGE_BYTES = 1_048_576
# The characters of a body that are shown.
_SHOWN = 20_000
_STATES = {"": "All", "visible": "Visible", "in-flight": "In flight", "delayed": "Delayed"}
_NO_QUEUE, _REASON = "SQ001", "FailureReason"
# Of the number of a page.
_DIGITS = 6


@admin.register(Queue)
class QueueAdmin(admin.ModelAdmin):
    """A page of queues, and one of the messages of each.

    They call the functions that SkipMQ's own console calls, which read by index.
    """

    def get_urls(self) -> list[Any]:
        """Return the two pages, instead of those that change objects."""
        view = self.admin_site.admin_view
        message = "<str:account>/<str:region>/<str:name>/"
        return [
            path("", view(self.changelist_view), name="skipmq_queue_changelist"),
            path(message, view(self.messages_view), name="skipmq_queue_messages"),
        ]

    def has_add_permission(self, request: Any) -> bool:  # noqa: ARG002 - as Django calls it.
        """Return that nothing is added."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:  # noqa: ARG002
        """Return that nothing is changed."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:  # noqa: ARG002
        """Return that nothing is deleted."""
        return False

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show the queues with their numbers of messages."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        search, page = request.GET.get("q", ""), _number(request.GET.get("p", ""))
        begin = page * _QUEUES
        found: dict[str, Any] = {"search": search, "queues": [], "count": 0}
        try:
            found["queues"], found["count"] = peeking.queues(
                configuration.database(), search, limit=_QUEUES, offset=begin
            )
        except ClientError as error:
            found["problem"] = str(error)
        if page:
            found["previous"] = urlencode({"q": search, "p": page - 1})
        if begin + len(found["queues"]) < found["count"]:
            found["next"] = urlencode({"q": search, "p": page + 1})
        found["may_see_messages"] = self._may_see_messages(request)
        return self._page(request, "list", "Queues", found | (extra_context or {}))

    def messages_view(self, request: Any, account: str, region: str, name: str) -> Any:
        """Show messages of a queue: those that are visible next come first."""
        if not self._may_see_messages(request):
            raise PermissionDenied
        state = request.GET.get("state", "")
        found: dict[str, Any] = {"name": name, "states": _STATES, "state": state}
        if state not in _STATES:
            raise Http404(f"a message is in no state {state!r}")
        try:
            page = peeking.messages(
                configuration.database(),
                Target(name, account=account, region=region),
                limit=_MESSAGES,
                state=state or None,
                after=request.GET.get("after") or None,
                size=_PAGE_BYTES,
            )
        except DataError as error:
            raise Http404("there is no such place in the queue") from error
        except ClientError as error:
            if error.sqlstate == _NO_QUEUE:
                raise Http404(str(error)) from error
            found["problem"] = str(error)
            page = []
        found["shown"] = [_shown(each) for each in page]
        if len(page) == _MESSAGES or sum(len(each.body) for each in page) >= _PAGE_BYTES // 4:
            found["next"] = urlencode({"state": state, "after": page[-1].place})
        return self._page(request, "messages", f"Messages of {name}", found)

    def _may_see_messages(self, request: Any) -> bool:
        allowed: bool = request.user.has_perm("skipmq.view_messages")
        return allowed

    def _page(self, request: Any, template: str, title: str, found: dict[str, Any]) -> Any:
        request.current_app = self.admin_site.name
        context = self.admin_site.each_context(request) | {"title": title, "opts": self.opts}
        return TemplateResponse(request, f"admin/skipmq/queue/{template}.html", context | found)


def _shown(message: peeking.Peeked) -> dict[str, Any]:
    """Return what the page shows of a message."""
    attributes = plain_attributes(json.loads(message.attributes or "{}"))
    return {
        "message": message,
        "reason": attributes.pop(_REASON, ""),
        "attributes": attributes,
        "body": message.body[:_SHOWN],
        "hidden": max(0, len(message.body) - _SHOWN),
    }


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else 0
