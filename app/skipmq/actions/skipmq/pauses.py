"""Beyond SQS: pause and resume the receives of a queue, with a right of its own."""

from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import extensions
from skipmq.protocol.call import Call


async def pause_queue(node: Node, call: Call[extensions.PauseQueue], queue: Queue) -> None:
    """Pause the receives of a queue, or with Paused of false resume them."""
    paused = "false" if call.parameters.Paused is False else "true"
    changes = {"Paused": paused, "PausedBy": call.identity.shown_name}
    await node.queues.set_attributes(queue, changes, call.deadline)
