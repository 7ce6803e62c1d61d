"""The errors of SNS, and what those of SQS's doors are called there.

Source: botocore's SNS service model.
"""

from skipmq.protocol import errors
from skipmq.protocol.errors import SqsError


class InvalidParameter(SqsError):
    """Invalid parameter"""


class ParameterValueInvalid(SqsError):
    """Invalid parameter value"""


class ValidationError(SqsError):
    """1 validation error detected"""


class NotFound(SqsError, status=404, sqlstate="SQ014"):
    """Topic does not exist"""


class ResourceNotFound(SqsError, status=404):
    """Resource does not exist"""


class TagLimitExceeded(SqsError):
    """Could not complete request: tag quota of per resource exceeded"""


class AuthorizationError(errors.AccessDenied, status=403):
    """Access to the topic is denied."""


class UnreadPolicy(SqsError, wire=errors.ServiceUnavailable, sqlstate="SQ015"):
    """The policy of a queue is to be read; try again."""


class TooManyEntries(SqsError, code="TooManyEntriesInBatchRequest"):
    """The batch request contains more entries than permissible."""


class EmptyBatch(SqsError, code="EmptyBatchRequest"):
    """The batch request doesn't contain any entries."""


class IdsNotDistinct(SqsError, code="BatchEntryIdsNotDistinct"):
    """Two or more batch entries in the request have the same Id."""


class InvalidBatchId(SqsError, code="InvalidBatchEntryId"):
    """The Id of a batch entry in the batch request doesn't abide by the specification."""


class BatchTooLong(SqsError, code="BatchRequestTooLong"):
    """The length of all the messages put together is more than the limit."""


# The code and the status of those of SQS that SNS shows otherwise.
_NAMED: dict[type[SqsError], tuple[str, int]] = {
    errors.InternalFailure: ("InternalError", 500),
    errors.ThrottlingException: ("Throttled", 429),
    errors.InvalidParameterValueException: ("InvalidParameter", 400),
}


def invalid(parameter: str, reason: str = "") -> InvalidParameter:
    """Return the error for a parameter."""
    text = f"Invalid parameter: {parameter}"
    return InvalidParameter(f"{text} Reason: {reason}" if reason else text)


def shown(failure: SqsError) -> tuple[str, int]:
    """Return the code and the status of an error."""
    return _NAMED.get(type(failure), (failure.code, failure.status))
