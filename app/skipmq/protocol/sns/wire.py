"""SNS's Query protocol: its requests are distinguished from SQS's, decoded and answered."""

from collections.abc import Mapping

from skipmq.protocol import errors, query, xml
from skipmq.protocol.call import Call, Request, Response, Result, response_headers
from skipmq.protocol.identity import Identity
from skipmq.protocol.sns import shapes
from skipmq.protocol.sns.errors import invalid, shown

VERSION = "2010-03-31"
_NAMESPACE = f'xmlns="http://sns.amazonaws.com/doc/{VERSION}/"'
_SCOPES = ("/sns/aws4_request", "%2Fsns%2Faws4_request")
_MISSING = "The request must contain the parameter "
_ACTIONS = {shapes.ON_THE_WIRE.get(name, name): name for name in shapes.ACTIONS}
_BOTH = frozenset(shapes.ON_THE_WIRE.values())
_READERS = {name: query.reader(action.input) for name, action in shapes.ACTIONS.items()}
_WRITERS = {
    name: None if action.output is None else xml.writer(action.output, f"{name}Result")
    for name, action in shapes.ACTIONS.items()
}


def is_scope(request: Request) -> bool:
    """Return whether a request's credential is for SNS."""
    given = request.headers.get("authorization") or request.query
    return any(each in given for each in _SCOPES)


def is_for_sns(request: Request, fields: Mapping[str, str]) -> bool:
    """Return whether a form is for SNS: by its credential, then its version, then its action."""
    if is_scope(request):
        return True
    if version := fields.get("Version"):
        return version == VERSION
    action = fields.get("Action", "")
    return action in _ACTIONS and (action not in _BOTH or "TopicArn" in fields)


def decode(request: Request, fields: dict[str, str], identity: Identity, deadline: float) -> Call:
    """Return the call in a form.

    Raises errors.InvalidAction for an action that SNS, or SkipMQ of it, does not have,
    sns.errors.InvalidParameter without a required one, and the errors of the readers.
    """
    request.is_sns = True
    action = _ACTIONS.get(fields.get("Action", ""))
    if action is None:
        shown_action = errors.shown(fields.get("Action", ""))
        raise errors.InvalidAction(
            f"The action {shown_action} is not valid for this endpoint: SkipMQ has SNS's topics,"
            " without SMS, mobile push and data protection."
        )
    if fields.get("Version", VERSION) != VERSION:
        raise errors.NoSuchVersion
    try:
        parameters = _READERS[action](fields, "")
    except errors.MissingRequiredParameterException as error:
        path = error.message.removeprefix(_MISSING).removesuffix(".")
        raise invalid(path, "no value for required parameter") from error
    return Call(action, parameters, request, identity, deadline)


def encode(call: Call, result: Result) -> Response:
    """Return the response with an action's result."""
    name, id_ = shapes.ON_THE_WIRE.get(call.action, call.action), call.request.request_id
    body = xml.document(name, _WRITERS[call.action], result, id_, _NAMESPACE)
    return Response(200, response_headers(call.request, "text/xml"), body)


def encode_error(request: Request, error: errors.SqsError) -> Response:
    """Return the response with an error."""
    code, status = shown(error)
    content = f"<Message>{xml.escape(error.message)}</Message>"
    body = xml.error_document(error.fault, code, content, request.request_id, _NAMESPACE)
    return Response(status, response_headers(request, "text/xml", status), body)
