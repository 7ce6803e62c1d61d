"""Callers, queues by account, region and name, and the permissions that calls need."""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from skipmq.protocol import limits


@dataclass(frozen=True, slots=True)
class QueueName:
    """The identity of a queue: account, region and name, and the ARN made of them."""

    account: str
    region: str
    name: str
    arn: str = field(init=False, compare=False, repr=False)

    # Of its actions.
    service: ClassVar[str] = "sqs"

    def __post_init__(self) -> None:
        arn = f"arn:aws:{self.service}:{self.region}:{self.account}:{self.name}"
        object.__setattr__(self, "arn", arn)


@dataclass(frozen=True, slots=True)
class TopicName(QueueName):
    """The identity of a topic."""

    service: ClassVar[str] = "sns"


class Need(NamedTuple):
    """A permission that a call needs, on a queue or topic, or on all of an account (name `*`)."""

    permission: str
    queue: QueueName


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a caller: account, region of the credential, and SenderId.

    With a verified signature it also has the access key's id, and an ARN as its user.
    """

    account: str = limits.DEFAULT_ACCOUNT
    region: str = limits.DEFAULT_REGION
    sender: str = limits.DEFAULT_ACCOUNT
    key_id: str | None = None
    user: str = ""
    # A command in the node's process: it may name no account or no region, which is every one.
    is_operator: bool = field(default=False, compare=False)
    # Whether a URL reaches a queue of another region where that of the caller has none.
    is_of_any_region: bool = field(default=False, compare=False)

    @property
    def shown_name(self) -> str:
        """The user's name, else the account."""
        return self.user.partition(":user/")[2] or self.user or self.account
