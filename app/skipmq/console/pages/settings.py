"""The pages of a queue's attributes, tags and policy, and those that create, purge or delete it."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import flask
from flask.typing import ResponseReturnValue

from skipmq.actions.checks import new_queue_name
from skipmq.actions.sqs.attributes import stored
from skipmq.console import site
from skipmq.console.pages import heading
from skipmq.console.visit import current
from skipmq.protocol import errors
from skipmq.protocol.queue_attributes import ATTRIBUTES, DOCUMENTS, Attribute


class Field(NamedTuple):
    """A form field for an attribute of queues."""

    attribute: str
    label: str
    group: str
    # The filter of formats for values, if any.
    unit: str = ""
    hint: str = ""
    # The values to choose from, unless it is free text.
    choices: tuple[str, ...] = ()

    @property
    def about(self) -> Attribute:
        """Return the default and the bounds of the attribute."""
        return ATTRIBUTES[self.attribute]

    @property
    def is_document(self) -> bool:
        """Return whether the value is JSON."""
        return self.attribute in DOCUMENTS


GROUPS = ("Delivery", "Limits", "FIFO", "Dead-letter queue", "Beyond SQS", "Encryption")
_FIELDS = (
    Field(
        "VisibilityTimeout", "Visibility timeout", "Delivery", "duration",
        "seconds that a received message stays hidden",
    ),
    Field(
        "DelaySeconds", "Delay", "Delivery", "duration",
        "seconds until a sent message can be received",
    ),
    Field(
        "MaximumDelaySeconds", "Longest delay", "Beyond SQS", "duration",
        "seconds, up to a year, by which a message may be delayed",
    ),
    Field(
        "ReceiveMessageWaitTimeSeconds", "Receive wait time", "Delivery", "duration",
        "seconds that a receive waits for messages",
    ),
    Field(
        "MessageRetentionPeriod", "Retention", "Delivery", "duration",
        "seconds until a message expires",
    ),
    Field(
        "MaximumMessageSize", "Maximum message size", "Delivery", "size",
        "bytes of a message with its attributes",
    ),
    Field(
        "ContentBasedDeduplication", "Content-based deduplication", "FIFO",
        hint="derive a missing deduplication ID from the body",
    ),
    Field("DeduplicationScope", "Deduplication scope", "FIFO"),
    Field("FifoThroughputLimit", "Throughput limit", "FIFO"),
    Field(
        "RedriveAllowPolicy", "Redrive allow policy", "Dead-letter queue",
        hint="JSON: the queues that may use this one as their dead-letter queue; empty: all",
    ),
    Field(
        "DeduplicationSeconds", "Deduplication", "Beyond SQS", "duration",
        "seconds for which a deduplication ID is known; FIFO queues: 300 at least; 0: by default",
    ),
    Field(
        "RetryBackoff", "Retry backoff", "Beyond SQS",
        hint='JSON: {"base": 10, "factor": 2, "maximum": 3600, "jitter": 0.1}; empty: none',
    ),
    Field(
        "MaximumInFlight", "Maximum in flight", "Limits",
        hint="messages that are received and not yet deleted; empty: no limit",
    ),
    Field("MaximumInFlightPerGroup", "Maximum in flight per group", "Limits"),
    Field(
        "MaximumReceiveRate", "Maximum receive rate", "Limits",
        hint="messages a second; empty: no limit",
    ),
    Field("MaximumReceiveRatePerGroup", "Maximum receive rate per group", "Limits"),
    Field(
        "ReceiveBurst", "Receive burst", "Limits",
        hint="messages that a rate allows at once; empty: those of a second",
    ),
    Field(
        "PriorityMode", "Priority", "Limits",
        hint="by the message attribute SkipMQ.Priority, 0 to 9: strict or weighted",
    ),
    Field("Paused", "Paused", "Beyond SQS", hint="receives return no messages"),
    Field("HistoryMode", "History", "Beyond SQS", hint="the data that is kept of settled messages"),
    Field(
        "ReplicationMode", "Replication", "Beyond SQS",
        hint="standbys that must confirm a message before its send is acknowledged",
    ),
    Field(
        "BodySchema", "Body schema", "Beyond SQS",
        hint="JSON Schema of the bodies, which become columns; empty: none",
    ),
    Field(
        "BodySchemaMode", "Body schema mode", "Beyond SQS",
        hint="enforce: refuse sends over HTTP whose body does not fit",
    ),
    Field(
        "SqsManagedSseEnabled", "Encryption by SQS", "Encryption",
        hint="stored, but without effect: encrypt the database's disk instead",
    ),
    Field("KmsMasterKeyId", "KMS key ID", "Encryption", hint="stored, but without effect"),
)  # fmt: skip


def _choices(attribute: Attribute, *, new: bool) -> tuple[str, ...]:
    choices = ("false", "true") if attribute.type is bool else attribute.allowed.choices
    return ("", *choices) if new and choices else choices


def add(pages: flask.Blueprint) -> None:
    path = "/queues/<name>/settings"
    pages.add_url_rule(path, "settings", _page)
    pages.add_url_rule(path, "set_attributes", _set_attributes, methods=["POST"])
    pages.add_url_rule("/queues/<name>/pause", "pause", _pause, methods=["POST"])
    pages.add_url_rule(f"{path}/tags", "tag", _tag, methods=["POST"])
    pages.add_url_rule(f"{path}/tags/remove", "untag", _untag, methods=["POST"])
    pages.add_url_rule(f"{path}/policy", "set_policy", _set_policy, methods=["POST"])
    pages.add_url_rule("/create", "create", _create, methods=["GET", "POST"])
    pages.add_url_rule("/queues/<name>/delete", "removal", _removal_page)
    pages.add_url_rule("/queues/<name>/delete", "delete", _delete, methods=["POST"])
    pages.add_url_rule("/queues/<name>/purge", "purge", _purge, methods=["POST"])


def fields(*, fifo: bool, new: bool = False) -> Sequence[Field]:
    """Return the fields of a queue; those of a new one have an empty choice for the default."""
    return [
        each._replace(choices=_choices(each.about, new=new))
        for each in _FIELDS
        if not (each.about.allowed.standard if fifo else each.about.allowed.fifo)
    ]


def submitted(form_fields: Sequence[Field], shown: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes in the form that differ from the ones shown."""
    form = flask.request.form
    attributes = {
        each.attribute: form[each.attribute].strip()
        for each in form_fields
        if each.attribute in form
        and form[each.attribute].strip() != shown.get(each.attribute, "").strip()
    }
    target, receives = form.get("dead_letter_queue", "").strip(), form.get("receives", "").strip()
    if (target, receives) != (shown.get("dead_letter_queue", ""), shown.get("receives", "")):
        policy: dict[str, Any] = {}
        if target:
            is_arn = target.startswith("arn:")
            policy["deadLetterTargetArn"] = target if is_arn else current().arn(target)
        if receives:
            policy["maxReceiveCount"] = receives
        attributes["RedrivePolicy"] = json.dumps(policy) if policy else ""
    return attributes


def check(attributes: Mapping[str, str], *, fifo: bool, name: str | None = None) -> None:
    """Check all attributes and the name of a new queue.

    Raises the error of the invalid one, or errors.InvalidAttributeValue with all error texts.
    """
    found: list[errors.SqsError] = []
    checks: list[Callable[[], object]] = [
        partial(stored, {each: value}, fifo=fifo) for each, value in attributes.items()
    ]
    if name is not None:
        checks.insert(0, partial(new_queue_name, name, fifo=fifo))
    for each in checks:
        try:
            each()
        except errors.SqsError as error:
            found.append(error)
    if len(found) == 1:
        raise found[0]
    if found:
        raise errors.InvalidAttributeValue("\n".join(each.message for each in found))


def redrive(attributes: Mapping[str, str]) -> tuple[str, str]:
    """Return a queue's dead-letter queue and maximum receive count as texts for a form."""
    policy = json.loads(attributes.get("RedrivePolicy") or "{}")
    target = policy.get("deadLetterTargetArn", "")
    own = current().arn("")
    return target.removeprefix(own), str(policy.get("maxReceiveCount", ""))


def _page(name: str, failed: str = "", error: errors.SqsError | None = None) -> ResponseReturnValue:
    """Render the page; show the error at the form that failed, with its values."""
    head = heading.build(name, "settings")
    tags, tag_error = current().attempt("ListQueueTags", QueueUrl=name)
    target, receives = redrive(head["attributes"])
    page = flask.render_template(
        "settings.html",
        **head,
        fields=fields(fifo=head["fifo"]),
        groups=GROUPS,
        dead_letter_queue=target,
        receives=receives,
        tags=tags.get("Tags", {}),
        tag_error=tag_error,
        failed=failed,
        error=error,
        given=flask.request.form if error is not None else {},
    )
    return page, 200 if error is None else error.status


@site.showing_errors(_page, "attributes")
def _set_attributes(name: str) -> ResponseReturnValue:
    form = flask.request.form
    shown = {key.removeprefix("was-"): form[key] for key in form if key.startswith("was-")}
    is_fifo = name.endswith(".fifo")
    attributes = submitted(fields(fifo=is_fifo), shown)
    check(attributes, fifo=is_fifo)
    if attributes:
        current().act("SetQueueAttributes", QueueUrl=name, Attributes=attributes)
    site.notice(f"Saved {', '.join(attributes)}." if attributes else "No changes.")
    return site.see("settings", name=name)


@site.showing_errors(_page, "attributes")
def _pause(name: str) -> ResponseReturnValue:
    is_paused = flask.request.form.get("paused") == "true"
    if "PauseQueue" in current().rights(name, "PauseQueue"):
        current().act("PauseQueue", QueueUrl=name, Paused=is_paused)
    else:
        attributes = {"Paused": str(is_paused).lower()}
        current().act("SetQueueAttributes", QueueUrl=name, Attributes=attributes)
    site.notice("Paused: receives return no messages." if is_paused else "Resumed.")
    return site.see("queue", name=name)


@site.showing_errors(_page, "tags")
def _tag(name: str) -> ResponseReturnValue:
    form = flask.request.form
    key = form.get("key", "")
    current().act("TagQueue", QueueUrl=name, Tags={key: form.get("value", "")})
    site.notice(f"Tag {key} set.")
    return site.see("settings", name=name)


@site.showing_errors(_page, "tags")
def _untag(name: str) -> ResponseReturnValue:
    key = flask.request.form.get("key", "")
    current().act("UntagQueue", QueueUrl=name, TagKeys=[key])
    site.notice(f"Tag {key} removed.")
    return site.see("settings", name=name)


@site.showing_errors(_page, "policy")
def _set_policy(name: str) -> ResponseReturnValue:
    policy = flask.request.form.get("policy", "").strip()
    current().act("SetQueueAttributes", QueueUrl=name, Attributes={"Policy": policy})
    site.notice("Policy saved." if policy else "Policy removed.")
    return site.see("settings", name=name)


def _create() -> ResponseReturnValue:
    form = flask.request.form
    page = {"fields": fields(fifo=True, new=True), "given": form, "groups": GROUPS}
    if flask.request.method != "POST":
        return flask.render_template("create.html", error=None, **page)
    name = form.get("name", "").strip()
    is_fifo = form.get("kind") == "fifo"
    if is_fifo and not name.endswith(".fifo"):
        name += ".fifo"
    attributes = {} if not is_fifo else {"FifoQueue": "true"}
    try:
        attributes |= submitted(fields(fifo=is_fifo, new=True), {})
        check(attributes, fifo=is_fifo, name=name)
        current().act("CreateQueue", QueueName=name, Attributes=attributes)
    except errors.SqsError as error:
        return flask.render_template("create.html", error=error, **page), error.status
    site.notice(f"Queue {name} created.")
    return site.see("messages", name=name)


def _removal_page(
    name: str, failed: str = "", error: errors.SqsError | None = None
) -> ResponseReturnValue:
    page = flask.render_template(
        "removal.html",
        **heading.build(name, "removal"),
        cooldown=current().broker.node.settings.name_cooldown,
        failed=failed,
        error=error,
    )
    return page, 200 if error is None else error.status


@site.showing_errors(_removal_page, "purge")
def _purge(name: str) -> ResponseReturnValue:
    _check_typed(name)
    number = current().act("PurgeQueue", QueueUrl=name)["Removed"]
    site.notice(f"Deleted all messages of the queue: {number:,}.")
    return site.see("messages", name=name)


def _delete(name: str) -> ResponseReturnValue:
    try:
        _check_typed(name)
        number = current().act("DeleteQueue", QueueUrl=name)["Removed"]
    except errors.QueueDoesNotExist:
        raise
    except errors.SqsError as error:
        return _removal_page(name, "delete", error)
    site.notice(f"Deleted the queue {name}. Messages that it had: {number:,}.")
    return site.see("queues")


def _check_typed(name: str) -> None:
    if flask.request.form.get("typed", "").strip() != name:
        raise errors.InvalidParameterValueException("Type the name of the queue to confirm.")
