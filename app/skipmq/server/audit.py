"""The audit log: who changed what on which queue, from where, and who was refused.

One record each in the node's log, at level info, or warning for a refusal. It has no message bodies
and no secrets: these actions take none.
"""

import re
from time import monotonic
from typing import Any

import msgspec
import structlog

from skipmq import errors
from skipmq.actions import access
from skipmq.protocol import Call, Request

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
# Refusals that are recorded in a second: guesses by the thousand shall not fill the disk.
_REFUSALS_MOST = 50
# Bytes of the parameters that a record has: a policy and more.
_PARAMETERS_MOST = 16_384


class Audit:
    """Records management actions, sign-ins and refusals; for one loop."""

    def __init__(self) -> None:
        self._second, self._refusals = 0, 0

    def note(self, request: Request, call: Call | None, error: errors.SqsError | None) -> None:
        """Record what became of a request, if it is of interest."""
        is_refusal = error is not None and isinstance(error, _REFUSALS)
        if is_refusal and self._is_too_much():
            return
        if not is_refusal and (call is None or call.action not in MANAGEMENT):
            return
        write = log.warning if is_refusal else log.info
        write(
            "audit",
            outcome=error.code if error is not None else "done",
            request_id=request.request_id,
            client=request.client,
            **(_of_call(call) if call is not None else _claimed(request)),
            **({"reason": error.message} if error is not None else {}),
        )

    def note_sign_in(self, request: Request, key_id: str, error: errors.SqsError | None) -> None:
        """Record who has signed in to the console, or was refused."""
        if error is not None and self._is_too_much():
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

    def _is_too_much(self) -> bool:
        second = int(monotonic())
        if second != self._second:
            if self._refusals > _REFUSALS_MOST:
                log.warning("audit: refusals left out", number=self._refusals - _REFUSALS_MOST)
            self._second, self._refusals = second, 0
        self._refusals += 1
        return self._refusals > _REFUSALS_MOST


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
        "parameters": _parameters(call) if call.action in MANAGEMENT else None,
    }


def _parameters(call: Call) -> Any:
    """Return what was sent, of a long request the beginning."""
    given = {k: v for k, v in msgspec.to_builtins(call.parameters).items() if v is not None}
    text = msgspec.json.encode(given)
    if len(text) <= _PARAMETERS_MOST:
        return given
    return text[:_PARAMETERS_MOST].decode("utf-8", "replace")
