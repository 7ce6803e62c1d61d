"""The pages of schedules."""

from support.http import NodeProcess, client
from support.visitor import Visitor


def test_schedule_is_created_shown_changed_and_deleted(node: NodeProcess) -> None:
    visitor, sqs = Visitor(node.url), client(node.url)
    sqs.create_queue(QueueName="scheduled")
    form = {
        "Name": "nightly",
        "queue": "scheduled",
        "Expression": "30 2 * * *",
        "Zone": "Europe/Berlin",
        "MessageBody": "go",
    }

    refused = visitor.post("schedules", form | {"Expression": "0 0 30 2 *"})
    visitor.post("schedules", form)
    visitor.post("schedules/nightly", {"how": "run"})
    visitor.post("schedules/nightly", {"how": "pause"})
    page = visitor.get("schedules/nightly").body
    listed = visitor.get("schedules").body
    visitor.post("schedules/nightly", {"how": "delete"})

    assert refused.status == 400
    assert "never fires" in refused.body
    (message,) = sqs.receive_message(QueueUrl="scheduled")["Messages"]
    assert message["MessageId"] in page
    assert "paused" in page
    assert "30 2 * * *" in listed
    assert "nightly" not in visitor.get("schedules").body.split("<form", 1)[0]
