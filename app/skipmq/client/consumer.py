"""A handler and how it is run, checked when it is declared."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from skipmq.client import bodies
from skipmq.client.context import Context
from skipmq.client.errors import ClientError, check_count, check_seconds
from skipmq.client.outcomes import Backoff
from skipmq.client.queue import Queue

_MAX_VISIBILITY = 43_200


@dataclass(frozen=True, slots=True)
class Options:
    """How a handler is run; times are in seconds."""

    concurrency: int
    visibility: int
    extend: bool
    retry: Backoff
    attempts: int | None
    # Messages of a batch and the seconds to wait for them; None is for handlers of one message.
    batch: int | None
    seconds: float | None

    def __post_init__(self) -> None:
        for name in ("concurrency", "visibility", "attempts", "batch"):
            value = getattr(self, name)
            if value is not None or name in ("concurrency", "visibility"):
                check_count(name, value, 1)
        if self.visibility > _MAX_VISIBILITY:
            raise ClientError(f"visibility={self.visibility} is more than 12 hours")
        if self.seconds is not None and self.batch is None:
            raise ClientError("seconds is how long to wait for a batch: say batch too")
        if self.seconds is not None:
            check_seconds("seconds", self.seconds)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A handler of the messages of a queue."""

    queue: Queue[Any]
    handler: Callable[..., Any]
    options: Options
    decode: Callable[[str], Any]
    takes_context: bool
    is_async: bool

    @property
    def name(self) -> str:
        """Return the name of the handler."""
        return name_of(self.handler)


def consumer(queue: Queue[Any], handler: Callable[..., Any], options: Options) -> Consumer:
    """Return a consumer; raise ClientError for a handler that cannot take its messages."""
    name = name_of(handler)
    is_batch = options.batch is not None
    wanted = "(batch) or (batch, context)" if is_batch else "(body) or (body, context)"
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError) as error:
        raise ClientError(f"{name} is no handler: a handler is a function {wanted}") from error
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if len(positional) not in (1, 2) or any(p not in positional for p in needed):
        raise ClientError(f"{name}{inspect.signature(handler)} is no handler: it takes {wanted}")
    hints = _hints(handler)
    body, *rest = [hints.get(p.name, Any) for p in positional]
    # A second one with a default is the handler's own.
    takes_context = rest == [Context] or positional[-1] in needed[1:]
    if takes_context and rest[0] not in (Any, Context):
        raise ClientError(
            f"{name} takes a {bodies.shown(rest[0])} as its second parameter, which is the"
            " skipmq.Context"
        )
    kind = _kind(name, queue, body, is_batch=is_batch)
    called = handler if inspect.isfunction(handler) else getattr(handler, "__call__", handler)  # noqa: B004
    is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ClientError(f"{name} is a generator, which would not run: take `yield` out of it")
    decode = bodies.codec(kind).decode
    return Consumer(queue, handler, options, decode, takes_context, is_async)


def name_of(handler: Any) -> str:
    """Return the name of a handler as messages have it."""
    return str(getattr(handler, "__qualname__", handler))


def _kind(name: str, queue: Queue[Any], annotation: Any, *, is_batch: bool) -> Any:
    """Return the type of bodies: the queue's, or, where that has none, the handler's."""
    wanted = queue.type
    if is_batch and annotation is not Any:
        if annotation is not list and get_origin(annotation) is not list:
            raise ClientError(
                f"{name} takes batches, and its first parameter is a {bodies.shown(annotation)}:"
                f" make it a list[{bodies.shown(wanted or str)}]"
            )
        (annotation,) = get_args(annotation) or (Any,)
    if wanted is None:
        return annotation
    if not _takes(annotation, wanted):
        shown = f"list[{bodies.shown(wanted)}]" if is_batch else bodies.shown(wanted)
        raise ClientError(
            f"{name} takes a {bodies.shown(annotation)}, and the queue {queue.name!r} has"
            f" {bodies.shown(wanted)}: make its first parameter a {shown}"
        )
    return wanted


def _takes(annotation: Any, kind: Any) -> bool:
    """Return whether a parameter plainly takes values of a type: of it, or of what it extends."""
    if annotation in (Any, kind):
        return True
    bare, bare_kind = get_origin(annotation) or annotation, get_origin(kind) or kind
    if annotation is not bare and kind is not bare_kind:
        return False  # Two lists, of different things.
    return isinstance(bare, type) and isinstance(bare_kind, type) and issubclass(bare_kind, bare)


def _hints(handler: Any) -> dict[str, Any]:
    """Return the annotations of a handler; none where a name of them is for type checkers alone."""
    try:
        return get_type_hints(handler if inspect.isroutine(handler) else type(handler).__call__)
    except (NameError, TypeError):
        return {}
