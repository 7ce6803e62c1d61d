"""The log of requests: what changes a queue, is refused or fails, and a sample of the rest.

A change of a queue, a refusal and a sign-in is an `audit` record: who did what, from where, with
which parameters. It is also in the audit log of the database. Everything else is a `request`. No
record has message bodies or secrets: the actions whose parameters are recorded take none, but for
texts to find messages by, which are left out.
"""

import re
from collections.abc import Mapping
from random import random
from time import monotonic
from typing import Any, Literal, NamedTuple

import msgspec
import structlog

from skipmq import errors
from skipmq.actions import EVERY, queue_name
from skipmq.model import Identity
from skipmq.node.key_store import KeyStore
from skipmq.protocol import Call, Request, Response
from skipmq.settings import Settings
from skipmq.store import Audit

log = structlog.get_logger()

# Of messages: what somebody looks for in them may be a part of one.
_OF_MESSAGES = frozenset({"AttributeValue", "BodyContains"})
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
_DONE = "done"
# The columns of the audit log that are those of a record of the log.
_COLUMNS = {
    "account": "account",
    "user_arn": "user",
    "action": "action",
    "queue": "queue",
    "client": "client",
    "door": "door",
    "request_id": "request_id",
    "outcome": "outcome",
    "parameters": "parameters",
}
# Records of refusals, and of errors, of a caller in a second: thousands would fill the disk.
_MOST = 50
# Refusals of a caller that a worker writes to the database in a minute: one that never ends leaves
# 7.8 million in 90 days.
_MOST_KEPT = 60
# How many callers of all kinds have a limit of their own at a time.
_CALLERS = 20
# Bytes of the parameters that a record has: a policy and more.
_PARAMETERS_MOST = 16_384


class RequestLog:
    """Records requests; for one loop."""

    def __init__(self, settings: Settings, audit: Audit, keys: KeyStore | None = None) -> None:
        self._audit, self._keys = audit, keys
        self._sample = 1.0 if settings.log_level == "debug" else settings.log_sample
        self._refusals, self._errors = Limit("refusals"), Limit("errors")
        self._kept = Limit("refusals in the database", _MOST_KEPT, seconds=60)

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
        is_change = call is not None and EVERY[call.action].is_change
        if isinstance(error, _REFUSALS):
            caller = self._caller(request, call)
            if self._refusals.has_room(caller):
                self._keep_refusal(_record(request, call, error, response, seconds), caller)
        elif is_change:
            self._keep(_record(request, call, error, response, seconds))
        elif error is not None:
            if self._errors.has_room(self._caller(request, call)):
                log.info("request", **_record(request, call, error, response, seconds))
        elif self._sample and random() < self._sample:  # noqa: S311 - it only chooses.
            log.info("request", **_record(request, call, error, response, seconds))

    def note_sign_in(
        self, request: Request, key_id: str, found: Identity | errors.SqsError
    ) -> None:
        """Record who has signed in to the console, or was refused."""
        record = {
            "request_id": request.request_id,
            "client": request.client,
            "door": "console",
            "action": "SignIn",
        }
        if isinstance(found, Identity):
            self._keep({"outcome": _DONE, **record, **_of_identity(found)})
            return
        # Something else may be a secret that was put in its place.
        claimed = {"claimed_access_key": key_id} if _KEY_ID.fullmatch(key_id) else {}
        caller = self._claimant(claimed)
        caller = caller._replace(kind=f"{caller.kind}, signing in")
        if self._refusals.has_room(caller):
            self._keep_refusal({"outcome": found.code, **record, **claimed}, caller)

    def _keep(self, record: dict[str, Any]) -> None:
        log.info("audit", **record)
        self._audit.note(_columns(record))

    def _keep_refusal(self, record: dict[str, Any], caller: "Caller") -> None:
        log.warning("audit", **record)
        if self._kept.has_room(caller):
            self._audit.note(_columns(record))

    def _caller(self, request: Request, call: Call | None) -> "Caller":
        if call is not None and call.identity.key_id is not None:
            return Caller("key", call.identity.key_id)
        return self._claimant(_claimed(request))

    def _claimant(self, claimed: Mapping[str, str]) -> "Caller":
        """Return the caller of a request that has proved nothing; any key can be made up."""
        key_id = claimed.get("claimed_access_key")
        if key_id is None:
            return Caller("no key")
        is_known = self._keys is not None and self._keys.is_stored(key_id)
        return Caller("claimed key", key_id) if is_known else Caller("unknown key")


class Caller(NamedTuple):
    """Whose records are counted together: those of a kind of callers, or of one of them."""

    kind: str
    key_id: str = ""


_ANY_CALLER = Caller("")


class Limit:
    """How many records of a kind, of each caller, a second, or several, has room for.

    So no caller's records hide those of another. It says how many it left out. Beyond a number of
    callers those of a kind have one limit together: claims of many keys hide no record of a key.
    """

    def __init__(self, kind: str, most: int = _MOST, seconds: int = 1) -> None:
        self._kind, self._most, self._seconds = kind, most, seconds
        self._period = 0
        self._records: dict[Caller, int] = {}

    def has_room(self, caller: Caller = _ANY_CALLER) -> bool:
        """Count a record in; tell whether it is one of those that its time has room for."""
        period = int(monotonic() / self._seconds)
        if period != self._period:
            number = sum(max(0, each - self._most) for each in self._records.values())
            if number:
                log.warning("records left out", kind=self._kind, number=number)
            self._period, self._records = period, {}
        if caller not in self._records and len(self._records) >= _CALLERS:
            caller = Caller(caller.kind)
        self._records[caller] = self._records.get(caller, 0) + 1
        return self._records[caller] <= self._most


def _record(
    request: Request,
    call: Call | None,
    error: errors.SqsError | None,
    response: Response | None,
    seconds: float,
) -> dict[str, Any]:
    return {
        "outcome": error.code if error is not None else _DONE,
        "request_id": request.request_id,
        "client": request.client,
        "door": _door(response),
        "milliseconds": round(seconds * 1000, 1),
        "request_bytes": len(request.body),
        **(_of_response(response) if response is not None else {}),
        **(_of_call(call) if call is not None else _claimed(request)),
        **({"reason": error.message} if error is not None else {}),
    }


def of_command(call: Call, error: errors.SqsError | None) -> dict[str, Any]:
    """Return what the audit log of the database has of an action that a command has run."""
    record = {
        "outcome": error.code if error is not None else _DONE,
        "request_id": call.request.request_id,
        "client": call.request.client,
        "door": "command",
        **_of_call(call),
    }
    return _columns(record)


def _columns(record: dict[str, Any]) -> dict[str, Any]:
    """Return what the audit log of the database has of a record."""
    key, claimed = record.get("access_key"), record.get("claimed_access_key")
    return {
        **{column: record.get(name) for column, name in _COLUMNS.items()},
        "access_key": key or claimed,
        "claimed": claimed is not None,
    }


def _door(response: Response | None) -> Literal["api", "console"]:
    """Return what a request came through; a page of the console has no response of a call."""
    return "console" if response is None else "api"


def _of_identity(identity: Identity) -> dict[str, Any]:
    return {
        "account": identity.account,
        "access_key": identity.key_id,
        "user": identity.user or None,
    }


def _of_response(response: Response) -> dict[str, Any]:
    return {"status": response.status, "response_bytes": len(response.body)}


def _claimed(request: Request) -> dict[str, str]:
    """Return the access key that a request names which has not proved anything."""
    found = _CREDENTIAL.search(request.headers.get("authorization") or f"&{request.query}")
    return {"claimed_access_key": found[1]} if found else {}


def _of_call(call: Call) -> dict[str, Any]:
    queue = queue_name(call)
    return {
        "action": call.action,
        "queue": None if queue is None else queue.arn,
        **_of_identity(call.identity),
        **({"parameters": _parameters(call)} if EVERY[call.action].is_change else {}),
    }


def _parameters(call: Call) -> Any:
    """Return what was sent, of a long request the beginning."""
    given = {
        name: "***" if name in _OF_MESSAGES else value
        for name, value in msgspec.to_builtins(call.parameters).items()
        if value is not None
    }
    text = msgspec.json.encode(given)
    if len(text) <= _PARAMETERS_MOST:
        return given
    return text[:_PARAMETERS_MOST].decode("utf-8", "replace")
