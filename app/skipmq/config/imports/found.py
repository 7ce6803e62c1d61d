"""What an import has found: queues, settings, and what has no exact counterpart."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from skipmq.config.declarations import DeclaredQueue


class UnreadableError(Exception):
    """A source cannot be imported; the message is one sentence with the remedy."""


class Difference(NamedTuple):
    """A setting without an exact counterpart: where it was found, and what to do instead.

    With a setting, it is of no account where that is set.
    """

    where: str
    remedy: str
    setting: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Found:
    """Queues to declare, settings with which their ARNs and URLs are the same, and differences.

    Dead-letter queues are named, so that the ARN is that of the account and region they are made
    in.
    """

    queues: tuple[DeclaredQueue, ...]
    settings: Mapping[str, str | int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
