"""The log of requests: what changes a queue, is refused or fails, and a sample of the rest.

A change of a queue, and a refusal, is an `audit` record: who did what, from where, with which
parameters. Everything else is a `request`. No record has message bodies or secrets: the actions
whose parameters are recorded take none.
"""

import re
from random import random
from time import monotonic
from typing import Any

import msgspec
import structlog

from skipmq import errors
from skipmq.actions import access
from skipmq.protocol import Call, Request, Response
from skipmq.settings import Settings

log = structlog.get_logger()

MANAGEMENT = frozenset(
    {
        "AddPermission",
        "CancelMessageMoveTask",
        "CopyMessages",
        "CreateQueue",
        "DeleteQueue",
        "MoveMessages",
        "PurgeQueue",
        "RemovePermission",
        "SetQueueAttributes",
        "StartMessageMoveTask",
        "TagQueue",
        "UntagQueue",
    }
)
_REFUSALS = (
    errors.AccessDenied,
    errors.ExpiredToken,
    errors.IncompleteSignature,
    errors.InvalidClientTokenId,
    errors.MissingAuthenticationToken,
    errors.RequestExpired,
    errors.SignatureDoesNotMatch,
)
_KEY_ID = re.compile("A[KS]IA[A-Z0-9]{16}")
# Of an access key's form: something else may be a secret that was put in its place.
_CREDENTIAL = re.compile("(?:Credential=|&X-Amz-Credential=)(A[KS]IA[A-Z0-9]{16})(?:/|%2F)")
# Records of refusals, and of errors, in a second: thousands would fill the disk.
_MOST = 50
# Bytes of the parameters that a record has: a policy and more.
_PARAMETERS_MOST = 16_384


class RequestLog:
    """Records requests; for one loop."""

    def __init__(self, settings: Settings) -> None:
        self._sample = 1.0 if settings.log_level == "debug" else settings.log_sample
        self._refusals, self._errors = Limit("refusals"), Limit("errors")

    def note(
        self,
        request: Request,
        call: Call | None,
        error: errors.SqsError | None,
        response: Response | None,
        seconds: float,
    ) -> None:
        """Record a request that was answered after so many seconds, if it is of interest.

        A call of the console has no response of its own.
        """
        is_change = call is not None and call.action in MANAGEMENT
        if isinstance(error, _REFUSALS):
            if self._refusals.has_room():
                log.warning("audit", **_record(request, call, error, response, seconds))
        elif is_change:
            log.info("audit", **_record(request, call, error, response, seconds))
        elif error is not None:
            if self._errors.has_room():
                log.info("request", **_record(request, call, error, response, seconds))
        elif self._sample and random() < self._sample:  # noqa: S311 - it only chooses.
            log.info("request", **_record(request, call, error, response, seconds))

    def note_sign_in(self, request: Request, key_id: str, error: errors.SqsError | None) -> None:
        """Record who has signed in to the console, or was refused."""
        if error is not None and not self._refusals.has_room():
            return
        (log.info if error is None else log.warning)(
            "audit",
            outcome=error.code if error is not None else "done",
            request_id=request.request_id,
            client=request.client,
            action="SignIn",
            # Something else may be a secret that was put in its place.
            **({"claimed_access_key": key_id} if _KEY_ID.fullmatch(key_id) else {}),
        )


class Limit:
    """How many records of a kind a second has room for; says once a second how many it left out."""

    def __init__(self, kind: str) -> None:
        self._kind, self._second, self._records = kind, 0, 0

    def has_room(self) -> bool:
        """Count a record in; tell whether it is one of those that the second has room for."""
        second = int(monotonic())
        if second != self._second:
            if self._records > _MOST:
                log.warning("records left out", kind=self._kind, number=self._records - _MOST)
            self._second, self._records = second, 0
        self._records += 1
        return self._records <= _MOST


def _record(
    request: Request,
    call: Call | None,
    error: errors.SqsError | None,
    response: Response | None,
    seconds: float,
) -> dict[str, Any]:
    return {
        "outcome": error.code if error is not None else "done",
        "request_id": request.request_id,
        "client": request.client,
        "milliseconds": round(seconds * 1000, 1),
        "request_bytes": len(request.body),
        **(_of_response(response) if response is not None else {}),
        **(_of_call(call) if call is not None else _claimed(request)),
        **({"reason": error.message} if error is not None else {}),
    }


def _of_response(response: Response) -> dict[str, Any]:
    return {"status": response.status, "response_bytes": len(response.body)}


def _claimed(request: Request) -> dict[str, Any]:
    """Return the access key that a request names which has not proved anything."""
    found = _CREDENTIAL.search(request.headers.get("authorization") or f"&{request.query}")
    return {"claimed_access_key": found[1]} if found else {}


def _of_call(call: Call) -> dict[str, Any]:
    identity = call.identity
    try:
        needs = access.NEEDS[call.action](call)
    except errors.SqsError:
        needs = []
    return {
        "action": call.action,
        "queue": needs[0].queue.arn if needs else None,
        "account": identity.account,
        "access_key": identity.key_id,
        "user": identity.user or None,
        **({"parameters": _parameters(call)} if call.action in MANAGEMENT else {}),
    }


def _parameters(call: Call) -> Any:
    """Return what was sent, of a long request the beginning."""
    given = {k: v for k, v in msgspec.to_builtins(call.parameters).items() if v is not None}
    text = msgspec.json.encode(given)
    if len(text) <= _PARAMETERS_MOST:
        return given
    return text[:_PARAMETERS_MOST].decode("utf-8", "replace")
