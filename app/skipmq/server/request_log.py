"""The log of requests: changes of queues, refusals, errors, and a sample of the rest.

Changes of queues, refusals and sign-ins are `audit` records, which are also written to the audit
log of the database; all others are `request` records. No record has message bodies or secrets:
actions whose parameters are recorded have none, except for filter texts, which are masked.
"""

import re
from collections.abc import Mapping
from random import random
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from skipmq.actions.dispatch import EVERY, Authorised, Outcome, queue_name
from skipmq.broker.audit_log import Audit
from skipmq.broker.key_store import KeyStore
from skipmq.broker.refusals import RefusalKey, Refusals
from skipmq.config.settings import Settings
from skipmq.protocol import errors
from skipmq.protocol.call import Call, Request, Result
from skipmq.protocol.identity import Identity
from skipmq.telemetry.logs import log

# Parameters with messages, with filter texts, which may be parts of messages, and with secrets.
_MASKED = frozenset({
    "AttributeValue", "BodyContains", "BodyPath", "FailureKind", "FailureReason",
    "MessageAttributes", "MessageBody", "Token",
})  # fmt: skip
# The user and the password of an endpoint's URL.
_USER = re.compile("//[^/?#]*@")
_REFUSALS = (
    errors.AccessDenied,
    errors.ExpiredToken,
    errors.IncompleteSignature,
    errors.InvalidClientTokenId,
    errors.MissingAuthenticationToken,
    errors.RequestExpired,
    errors.SignatureDoesNotMatch,
)
# The beginnings of actions by which clients send and process messages.
_OF_MESSAGES = ("ChangeMessageVisibility", "DeleteMessage", "ReceiveMessage", "SendMessage")
_KEY_ID = re.compile("A[KS]IA[A-Z0-9]{16}")
# Log only well-formed key ids; a malformed one may be a misplaced secret.
_CREDENTIAL = re.compile("(?:Credential=|&X-Amz-Credential=)(A[KS]IA[A-Z0-9]{16})(?:/|%2F)")
_DONE = "done"
# Columns of the audit log that have the names of the fields in records.
_COLUMNS = "account", "action", "queue", "client", "door", "request_id", "outcome", "parameters"
# Records of refusals, and of errors, of a caller per second, at most.
_PER_SECOND = 50
# Refusals of a caller that a worker writes to the database per minute, at most: 7.8 million in 90
# days.
_STORED_PER_MINUTE = 60
# Callers with limits of their own at a time.
_CALLERS = 20
# Bytes of parameters in a record, at most.
_PARAMETER_BYTES = 16_384


class RequestLog:
    """The log of requests; for one loop."""

    def __init__(
        self, settings: Settings, audit: Audit, refusals: Refusals, keys: KeyStore | None = None
    ) -> None:
        self._audit, self._counters, self._keys = audit, refusals, keys
        self._own = settings.account, settings.region
        self._sample = 1.0 if settings.log_level == "debug" else settings.log_sample
        self._refusals, self._errors = Limit("refusals"), Limit("errors")
        self._stored = Limit("refusals in the database", _STORED_PER_MINUTE, seconds=60)

    def note(self, request: Request, outcome: Outcome) -> None:
        """Record a request, unless only a sample of its kind is logged."""
        call, error = outcome.call, outcome.failure
        is_change = call is not None and EVERY[call.action].is_change
        if error is None and not is_change:
            if self._sample and random() < self._sample:  # noqa: S311 - no secret.
                log.info("request", **_record(request, outcome))
        elif isinstance(error, _REFUSALS):
            caller = self._caller(request, call)
            self._count_refusal(call, caller, error)
            if self._refusals.allows(caller):
                self._write_refusal(_record(request, outcome), caller)
        elif is_change:
            self._write(_record(request, outcome))
        else:
            caller = self._caller(request, call)
            is_of_messages = call is not None and call.action.startswith(_OF_MESSAGES)
            # Others may just ask for a queue that is gone.
            if isinstance(error, errors.QueueDoesNotExist) and is_of_messages:
                self._count_refusal(call, caller, error)
            if self._errors.allows(caller):
                log.info("request", **_record(request, outcome))

    def note_sign_in(
        self, request: Request, key_id: str, found: Identity | errors.SqsError
    ) -> None:
        """Record a sign-in to the console, or its refusal."""
        record = {
            "request_id": request.request_id,
            "client": request.client,
            "door": "console",
            "action": "SignIn",
        }
        if isinstance(found, Identity):
            self._write({"outcome": _DONE, **record, **_identity_fields(found)})
            return
        # Log only well-formed key ids; a malformed one may be a misplaced secret.
        claimed = {"claimed_access_key": key_id} if _KEY_ID.fullmatch(key_id) else {}
        caller = self._claimant(claimed)
        self._count_refusal(None, caller, found)
        caller = caller._replace(kind=f"{caller.kind}, signing in")
        if self._refusals.allows(caller):
            self._write_refusal({"outcome": found.code, **record, **claimed}, caller)

    def _write(self, record: dict[str, Any]) -> None:
        log.info("audit", **record)
        self._audit.note(_columns(record))

    def _count_refusal(self, call: Call | None, caller: "Caller", error: errors.SqsError) -> None:
        queue = None if call is None else queue_name(call)
        account, region = self._own
        user, name = caller.kind, "*"
        identity = None if call is None else call.identity
        if caller.key_id and caller.kind != "key" and self._keys is not None:
            identity = self._keys.identity(caller.key_id, region)
        if identity is not None and identity.key_id is not None:
            account, region = identity.account, identity.region
            user = f"user {identity.shown_name}"
        if queue is not None:
            account, region, name = queue.account, queue.region, queue.name
        code = error.code.removeprefix(errors.LEGACY)
        self._counters.note(RefusalKey(account, region, name, user, code))

    def _write_refusal(self, record: dict[str, Any], caller: "Caller") -> None:
        log.warning("audit", **record)
        if self._stored.allows(caller):
            self._audit.note(_columns(record))

    def _caller(self, request: Request, call: Call | None) -> "Caller":
        if call is not None and call.identity.key_id is not None:
            return Caller("key", call.identity.key_id)
        return self._claimant(_claimed_key(request))

    def _claimant(self, claimed: Mapping[str, str]) -> "Caller":
        """Return the caller of a request whose signature was not verified."""
        key_id = claimed.get("claimed_access_key")
        if key_id is None:
            return Caller("no key")
        is_known = self._keys is not None and self._keys.is_stored(key_id)
        return Caller("claimed key", key_id) if is_known else Caller("unknown key")


class Caller(NamedTuple):
    """The caller whose records share a limit: a kind of callers, or one access key."""

    kind: str
    key_id: str = ""


_ANY_CALLER = Caller("")


class Limit:
    """A limit of records of a kind for each caller, in a period of `seconds`.

    Excess records are left out, and their number is logged. Beyond a number of callers those of a
    kind share a limit, so that claims of many keys do not suppress the records of a verified one.
    """

    def __init__(self, kind: str, limit: int = _PER_SECOND, seconds: int = 1) -> None:
        self._kind, self._limit, self._seconds = kind, limit, seconds
        self._period = 0
        self._records: dict[Caller, int] = {}

    def allows(self, caller: Caller = _ANY_CALLER) -> bool:
        """Count a record; return whether it is within the limit."""
        period = int(monotonic() / self._seconds)
        if period != self._period:
            number = sum(max(0, each - self._limit) for each in self._records.values())
            if number:
                log.warning("records left out", kind=self._kind, number=number)
            self._period, self._records = period, {}
        if caller not in self._records and len(self._records) >= _CALLERS:
            caller = Caller(caller.kind)
        self._records[caller] = self._records.get(caller, 0) + 1
        return self._records[caller] <= self._limit


def _record(request: Request, outcome: Outcome) -> dict[str, Any]:
    call, error, response = outcome.call, outcome.failure, outcome.response
    fields: dict[str, Any] = {}
    if response is not None:
        fields = {"status": response.status, "response_bytes": len(response.body)}
    return {
        "outcome": error.code if error is not None else _DONE,
        "request_id": request.request_id,
        "client": request.client,
        # Calls of the console have no response.
        "door": "api" if response is not None else "console",
        "milliseconds": round(outcome.seconds * 1000, 1),
        "request_bytes": len(request.body),
        **fields,
        **(
            _claimed_key(request)
            if call is None
            else _call_fields(call, outcome.authorised, outcome.result)
        ),
        **({"reason": error.message} if error is not None else {}),
    }


def command_record(
    call: Call, error: errors.SqsError | None, result: Result = None
) -> dict[str, Any]:
    """Return the record in the audit log of an action that a command has run."""
    record = {
        "outcome": error.code if error is not None else _DONE,
        "request_id": call.request.request_id,
        "client": call.request.client,
        "door": "command",
        **_call_fields(call, None, result),
    }
    return _columns(record)


def _columns(record: dict[str, Any]) -> dict[str, Any]:
    key, claimed = record.get("access_key"), record.get("claimed_access_key")
    return {
        **{column: record.get(column) for column in _COLUMNS},
        "user_arn": record.get("user"),
        "access_key": key or claimed,
        "claimed": claimed is not None,
    }


def _identity_fields(identity: Identity) -> dict[str, Any]:
    return {
        "account": identity.account,
        "access_key": identity.key_id,
        "user": identity.user or None,
    }


def _claimed_key(request: Request) -> dict[str, str]:
    """Return the access key that a request names, whose signature was not verified."""
    found = _CREDENTIAL.search(request.headers.get("authorization") or f"&{request.query}")
    return {"claimed_access_key": found[1]} if found else {}


def _call_fields(
    call: Call, authorised: Authorised | None, result: Result = None
) -> dict[str, Any]:
    queue = queue_name(call, authorised)
    return {
        "action": call.action,
        "queue": None if queue is None else queue.arn,
        **_identity_fields(call.identity),
        **({"parameters": _parameters(call, result)} if EVERY[call.action].is_change else {}),
    }


def _masked(name: str, value: Any) -> Any:
    if name in _MASKED:
        return "***"
    return _USER.sub("//***@", value) if name == "Endpoint" else value


def _parameters(call: Call, result: Result) -> Any:
    """Return the parameters of a call, or their truncated JSON text if long.

    A purge and a deletion also have how many messages they removed.
    """
    parameters = {
        name: _masked(name, value)
        for name, value in msgspec.to_builtins(call.parameters).items()
        if value is not None
    }
    if isinstance(result, dict) and "Removed" in result:
        parameters["Messages"] = result["Removed"]
    text = msgspec.json.encode(parameters)
    if len(text) <= _PARAMETER_BYTES:
        return parameters
    return text[:_PARAMETER_BYTES].decode("utf-8", "replace")
