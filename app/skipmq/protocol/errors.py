"""The errors that clients of SkipMQ get: both wire names, status, fault and SQLSTATE.

A class is named after the shape in AWS's service model, which is its name in the JSON protocol;
`code` is its name in the Query protocol and the `x-amzn-query-error` header. The docstring is the
default error text, AWS's own where there is one.
"""

from typing import ClassVar, Literal

type_of_fault = Literal["Sender", "Receiver"]

SQS = "com.amazonaws.sqs"
CORAL = "com.amazon.coral.service"
LEGACY = "AWS.SimpleQueueService."

BY_SQLSTATE: dict[str, type["SqsError"]] = {}
# The characters of a client's value that an error text quotes.
_SHOWN = 200


def shown(value: object) -> str:
    """Return a value as error texts quote it, truncated if long."""
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class SqsError(Exception):
    """An error that is returned to the client."""

    shape: ClassVar[str] = "InternalFailure"
    code: ClassVar[str] = "InternalFailure"
    status: ClassVar[int] = 500
    fault: ClassVar[type_of_fault] = "Receiver"
    namespace: ClassVar[str] = CORAL

    def __init_subclass__(  # noqa: PLR0913 - one keyword for each column of the table below.
        cls,
        *,
        code: str | None = None,
        status: int = 400,
        fault: type_of_fault = "Sender",
        namespace: str = SQS,
        sqlstate: str | None = None,
        shape: str | None = None,
        wire: type["SqsError"] | None = None,
    ) -> None:
        # With `wire` clients see that error with this class's text.
        cls.shape = wire.shape if wire else shape or cls.__name__
        cls.code = wire.code if wire else code or cls.__name__
        seen = (wire.status, wire.fault, wire.namespace) if wire else (status, fault, namespace)
        cls.status, cls.fault, cls.namespace = seen
        for each in (sqlstate or "").split():
            BY_SQLSTATE[each] = cls

    def __init__(self, message: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        super().__init__(self.message)


class QueueDoesNotExist(SqsError, code=LEGACY + "NonExistentQueue", sqlstate="SQ001"):
    """The specified queue does not exist."""


class QueueNameExists(SqsError, code="QueueAlreadyExists", sqlstate="SQ002"):
    """A queue already exists with the same name and a different value for an attribute."""


class QueueDeletedRecently(SqsError, code=LEGACY + "QueueDeletedRecently", sqlstate="SQ003"):
    """You must wait 60 seconds after deleting a queue before you can create another with the same name."""


class PurgeQueueInProgress(
    SqsError, code=LEGACY + "PurgeQueueInProgress", status=403, sqlstate="SQ004"
):
    """Only one PurgeQueue operation is allowed every 60 seconds."""


class QueueMoved(
    SqsError, code=LEGACY + "NonExistentQueue", sqlstate="SQ005", shape="QueueDoesNotExist"
):
    """The queue has been purged or deleted since it was looked up."""


class BatchEntryIdsNotDistinct(SqsError, code=LEGACY + "BatchEntryIdsNotDistinct"):
    """Two or more batch entries in the request have the same Id."""


class EmptyBatchRequest(SqsError, code=LEGACY + "EmptyBatchRequest"):
    """There should be at least one entry in the request."""


class InvalidBatchEntryId(SqsError, code=LEGACY + "InvalidBatchEntryId"):
    """A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."""


class TooManyEntriesInBatchRequest(SqsError, code=LEGACY + "TooManyEntriesInBatchRequest"):
    """Maximum number of entries per request are 10."""


class BatchRequestTooLong(SqsError, code=LEGACY + "BatchRequestTooLong"):
    """Batch requests cannot be longer than 1048576 bytes."""


class MessageNotInflight(SqsError, code=LEGACY + "MessageNotInflight"):
    """The specified message isn't in flight."""


class UnsupportedOperation(SqsError, code=LEGACY + "UnsupportedOperation", sqlstate="SQ007"):
    """Unsupported operation."""


class OverLimit(SqsError, status=403):
    """The specified action violates a limit."""


class ResourceNotFoundException(SqsError, status=404, sqlstate="SQ010"):
    """One or more specified resources don't exist."""


class ReceiptHandleIsInvalid(SqsError, status=404):
    """The specified receipt handle isn't valid."""


class InvalidMessageContents(SqsError, sqlstate="SQ009"):
    """The message contains characters outside the allowed set."""


class InvalidAttributeName(SqsError, sqlstate="SQ006"):
    """The specified attribute doesn't exist."""


class InvalidAttributeValue(SqsError, sqlstate="23514"):
    """A queue attribute value is invalid."""


class RequestThrottled(SqsError, status=403):
    """The request was denied due to request throttling."""


class InvalidParameterValueException(
    SqsError, code="InvalidParameterValue", namespace=CORAL, sqlstate="SQ008"
):
    """One or more parameters are invalid."""


class MissingRequiredParameterException(
    SqsError, code="MissingParameter", namespace=CORAL, sqlstate="SQ011"
):
    """The request must contain a required parameter."""


class ThrottlingException(SqsError, namespace=CORAL):
    """The rate of requests exceeds the limit; nothing has been done; try again."""


class InvalidAction(SqsError, namespace=CORAL):
    """The action or operation requested is not valid for this endpoint."""


class NoSuchVersion(SqsError, namespace=CORAL):
    """An incorrect version was specified in the request."""


class UnknownOperationException(SqsError, status=404, namespace=CORAL):
    """The operation is unknown."""


class MethodNotAllowed(
    SqsError,
    code="UnknownOperationException",
    status=405,
    namespace=CORAL,
    shape="UnknownOperationException",
):
    """The methods of this endpoint are GET and POST."""


class MissingAuthenticationToken(
    SqsError, status=403, namespace=CORAL, shape="MissingAuthenticationTokenException"
):
    """Request is missing Authentication Token."""


class IncompleteSignature(SqsError, namespace=CORAL, shape="IncompleteSignatureException"):
    """The request signature does not conform to AWS standards."""


class InvalidClientTokenId(
    SqsError, status=403, namespace=CORAL, shape="UnrecognizedClientException"
):
    """The security token included in the request is invalid."""


class ExpiredToken(SqsError, status=403, namespace=CORAL, shape="ExpiredTokenException"):
    """The security token included in the request is expired."""


class SignatureDoesNotMatch(
    SqsError, status=403, namespace=CORAL, shape="InvalidSignatureException"
):
    """The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details."""


class RequestExpired(SqsError, namespace=CORAL):
    """The request has expired."""


class AccessDenied(SqsError, status=403, namespace=CORAL, shape="AccessDeniedException"):
    """Access to the resource is denied."""


class SerializationException(SqsError, namespace=CORAL, sqlstate="SQ012"):
    """The request body could not be read."""


class RequestTimeout(SqsError, status=408, namespace=CORAL):
    """The request body did not arrive in time."""


class FormTooLong(SqsError, status=413, namespace=CORAL):
    """The form is longer than 8192 bytes without a session of the console, or than any message."""


class InternalFailure(SqsError, status=500, fault="Receiver", namespace=CORAL):
    """The request processing has failed because of an unknown error. Quote the request id to the operator."""


class ServiceUnavailable(SqsError, status=503, fault="Receiver", namespace=CORAL):
    """The database cannot be reached at the moment; try again."""


class RouterUnavailable(ServiceUnavailable, wire=ServiceUnavailable):
    """The router cannot be reached at the moment: queues are served, but neither created nor listed; try again."""


class DatabaseReadOnly(ServiceUnavailable, wire=ServiceUnavailable):
    """The database takes no writes at the moment: it is read-only; try again."""


class NoConnectionSlot(ServiceUnavailable, wire=ServiceUnavailable):
    """The database has no free connection for this node; nothing has been done; try again."""


class StatementCancelled(ServiceUnavailable, wire=ServiceUnavailable, sqlstate="57014"):
    """The database cancelled the statement; nothing has been done; try again."""

    def __init__(self, _: str | None = None) -> None:
        super().__init__()


class NeedsOperator(ServiceUnavailable, wire=ServiceUnavailable):
    """The database needs operator action; nothing has been done; try again."""

    def __init__(self, reason: str | None = None, remedy: str | None = None) -> None:
        super().__init__()
        # The server's message and hint, for operators.
        self.reason, self.remedy = reason, remedy


class DiskFull(NeedsOperator, wire=ServiceUnavailable, sqlstate="53100"):
    """The disk of the database is full; nothing has been done; try again."""


class InsufficientPrivilege(NeedsOperator, wire=ServiceUnavailable, sqlstate="42501"):
    """The database refuses this node a privilege; nothing has been done; try again."""


class DatabaseDamaged(NeedsOperator, wire=ServiceUnavailable, sqlstate="XX001 XX002 58030"):
    """A page of the database that the request needs is damaged; nothing has been done; `skipmq doctor` has the remedy."""


class NumbersExhausted(NeedsOperator, wire=ServiceUnavailable, sqlstate="2200H"):
    """A sequence of the database has no more numbers; nothing has been done; `skipmq doctor` has the remedy."""


class OutcomeUnknown(ServiceUnavailable, wire=ServiceUnavailable):
    """The database became unavailable; whether the request has been done is not known; try again."""


class RequestCancelled(OutcomeUnknown, wire=ServiceUnavailable):
    """The request was cancelled; whether it has been done is not known; try again."""


class Locked(SqsError, wire=ServiceUnavailable):
    """An open transaction holds a lock that the request needs; nothing has been done; try again."""


class TableLocked(Locked, wire=ServiceUnavailable):
    """An open transaction holds a lock that the request needs; nothing has been done; try again."""


class Overloaded(SqsError, wire=ServiceUnavailable):
    """The node is at its limit of requests; nothing has been done; try again."""


def invalid(value: object, parameter: str, reason: str) -> InvalidParameterValueException:
    """Return the error for a parameter whose value is out of bounds."""
    return InvalidParameterValueException(
        f"Value {shown(value)} for parameter {parameter} is invalid. Reason: {reason}"
    )


def missing(parameter: str) -> MissingRequiredParameterException:
    """Return the error for a parameter that is missing or empty."""
    return MissingRequiredParameterException(f"The request must contain the parameter {parameter}.")
