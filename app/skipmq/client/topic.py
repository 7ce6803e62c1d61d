"""A topic as a program sees it: its name, and the type of its bodies."""

from typing import Any, Generic, TypeVar

from skipmq.client import statements, transactions
from skipmq.client.errors import ClientError
from skipmq.client.message import attributes_json, typed_attributes
from skipmq.client.queue import Attributes, Queue
from skipmq.client.sending import is_url

T = TypeVar("T")


class Topic(Generic[T]):
    """A topic of the broker, whose bodies are of a type, as those of a Queue."""

    def __init__(
        self,
        name: str,
        type: type[T] | None = None,  # noqa: A002 - what it is.
        *,
        account: str | None = None,
        region: str | None = None,
    ) -> None:
        """Name a topic; raise ClientError for a type that bodies cannot have."""
        # What a queue of this name would have alike: bodies, place and errors.
        self._like: Queue[Any] = Queue(name, type, account=account, region=region)
        self.name = self._like.name

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    def publish(  # noqa: PLR0913 - what a message has.
        self,
        body: T,
        *,
        using: Any,
        attributes: Attributes | None = None,
        subject: str | None = None,
        group: str | None = None,
        deduplication_id: str | None = None,
    ) -> str:
        """Publish a message in the caller's transaction; return its id.

        All queues that are subscribed and match have it when that transaction has committed.
        `using` is as for Queue.send, but no URL. Raises ClientError.
        """
        call = self._call(body, using, attributes, subject, group, deduplication_id)
        with self._like.explaining():
            ((message_id,),) = transactions.run(using, statements.PUBLISH, call)
        return str(message_id)

    async def apublish(  # noqa: PLR0913 - as above.
        self,
        body: T,
        *,
        using: Any,
        attributes: Attributes | None = None,
        subject: str | None = None,
        group: str | None = None,
        deduplication_id: str | None = None,
    ) -> str:
        """Publish a message in the caller's transaction, as `publish` does."""
        call = self._call(body, using, attributes, subject, group, deduplication_id)
        with self._like.explaining():
            ((message_id,),) = await transactions.arun(using, statements.PUBLISH, call)
        return str(message_id)

    def _call(  # noqa: PLR0913, PLR0917 - as above.
        self,
        body: T,
        using: Any,
        attributes: Attributes | None,
        subject: str | None,
        group: str | None,
        deduplication_id: str | None,
    ) -> list[Any]:
        if is_url(using):
            raise ClientError("a Topic publishes by SQL: publish to a URL with an SDK's SNS client")
        known = attributes_json(typed_attributes({} if attributes is None else attributes))
        where = (self._like.account, self._like.region)
        encoded = self._like.encoded(body)
        return [self.name, encoded, known, subject, group, deduplication_id, *where]
