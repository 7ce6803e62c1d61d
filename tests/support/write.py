"""A request that writes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from support.shop import Shop

Answer: TypeAlias = Mapping[str, Any]
Act: TypeAlias = Callable[[], Answer]


@dataclass(frozen=True)
class Write:
    """A request: what it is, how it is prepared, and whether the database shows it done.

    `done` is called with the answer, or with none of it where the request failed.
    """

    action: str
    function: str
    prepare: Callable[[Shop], Act]
    done: Callable[[Shop, Answer], bool]
    fifo: bool = False
    # Whether the node runs its statement again when the outcome is unknown.
    repeats: bool = True

    def __str__(self) -> str:
        return f"{self.action}{'-fifo' if self.fifo else ''}"
