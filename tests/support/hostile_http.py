"""Requests of HTTP around documents that nearly fit, signed or not, and changes of their bytes."""

from dataclasses import dataclass, field, replace
from urllib.parse import quote_plus

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from support.hostile import ACTIONS, NAME, QUEUE, TEXT, documents, fields, flat, in_json
from support.http import ACCOUNT
from support.sigv4 import UrlSigner
from support.wire import FORM, JSON


@dataclass(frozen=True, slots=True)
class Message:
    """A request of HTTP; `parts` are its header lines."""

    headers: dict[str, str]
    body: bytes
    method: str = "POST"
    path: str = "/"
    parts: tuple[bytes, ...] = field(default=())

    @property
    def is_json(self) -> bool:
        """Tell whether the answer is to be on the AWS JSON wire."""
        given = {k.lower(): v for k, v in self.headers.items()}
        kind = given.get("content-type", "").lower()
        return "x-amz-target" in given or kind.startswith("application/x-amz-json")

    def written(self, *, close: bool = True) -> bytes:
        lines = [f"{self.method} {self.path} HTTP/1.1".encode("latin-1")]
        lines += [f"{k}: {v}".encode("latin-1") for k, v in self.headers.items()]
        lines += [f"Content-Length: {len(self.body)}".encode(), *self.parts]
        lines += [b"Connection: close"] if close else []
        return b"\r\n".join([*lines, b"", b""]) + self.body


TYPES = st.sampled_from(
    [
        *("application/x-amz-json-1.0", "APPLICATION/X-AMZ-JSON-1.0", "application/x-amz-json-1.1"),
        *("application/x-amz-json-1.0; charset=utf-16", "application/json", "text/xml", "", ";"),
        *("application/x-www-form-urlencoded; charset=utf-7", "multipart/form-data; boundary=a"),
        *("application/x-www-form-urlencoded", "a/b; charset=\xff", "x" * 5000),
    ]
)
TARGETS = st.sampled_from(
    [
        *("AmazonSQS.SendMessage", "AmazonSQS.sendmessage", "AmazonSQS.", ".", "SendMessage", ""),
        *("AmazonSQS.AmazonSQS.SendMessage", "SkipMQ.SendMessage", "AmazonSNS.Publish", "\xe9"),
        *("AmazonSQS.ListQueues, AmazonSQS.SendMessage", "AmazonSQS.__class__", "x" * 5000),
    ]
)
VALUE = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"))
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Content-Type": TYPES,
        "X-Amz-Target": TARGETS,
        "x-amzn-query-mode": st.sampled_from(["true", "false", "\xff"]),
        "Accept": st.sampled_from(["application/json", "text/html", "*/*;q=x"]),
        "Content-Encoding": st.sampled_from(["gzip", "br", "aws-chunked"]),
        "Authorization": VALUE | st.just("AWS4-HMAC-SHA256 Credential=a/b/c/sqs/aws4_request"),
        "X-Amz-Date": VALUE,
        "X-Amz-Security-Token": VALUE,
        "X-Amz-Content-Sha256": st.sampled_from(["UNSIGNED-PAYLOAD", "0" * 64, ""]),
        "X-Amzn-Trace-Id": VALUE,
        "X-Forwarded-Host": VALUE,
        "X-Forwarded-For": VALUE,
        "Cookie": VALUE,
        "Expect": st.sampled_from(["100-continue", "200-ok"]),
    },
)
PATHS = st.lists(
    st.sampled_from(
        [*("/", ACCOUNT, NAME, "%00", "%FF", "?", "&", "Action=", "a", "%2F", "..", "%2e%2e"), ";"]
    ),
    max_size=8,
).map(lambda parts: f"/{''.join(parts)}")


@st.composite
def messages(draw: DrawFn, key: Credentials | None = None) -> Message:
    """Give a request, signed by a key where one is given."""
    name = draw(st.sampled_from([*ACTIONS]))
    shape = ACTIONS[name]
    document = draw(documents(shape))
    host = {"Host": draw(st.sampled_from(["localhost", "127.0.0.1", "127.0.0.1:1"]))}
    if draw(st.booleans()) or name.startswith("SkipMQ"):
        body = in_json(document).encode("utf-8", "surrogatepass")
        message = Message({**host, **JSON, "X-Amz-Target": name}, body)
    else:
        pairs = [*fields("", flat(shape, document)), ("Action", name.partition(".")[2])]
        for _ in range(draw(st.integers(0, 2))):
            pairs.insert(0, draw(st.sampled_from(pairs) | st.tuples(TEXT, TEXT)))
        form = "&".join(f"{_quoted(k)}={_quoted(v)}" for k, v in pairs)
        form += draw(st.sampled_from(["", "&", "&&=&=", "&%", "&%zz=%f", "&a=%ff", "&a=\x80"]))
        message = Message({**host, **FORM}, form.encode("latin-1", "replace"))
        if draw(st.integers(0, 5)) == 0 and len(form) < 5000:
            kept = "".join(c for c in form if "!" <= c <= "~")
            message = replace(message, method="GET", path=f"/?{kept}", body=b"")
    if draw(st.booleans()):
        message = replace(message, headers=message.headers | draw(HEADERS))
    if key is not None:
        message = signed(message, key, in_url=draw(st.booleans()))
    if draw(st.integers(0, 5)) == 0:
        message = replace(message, headers=message.headers | draw(HEADERS))
    if draw(st.integers(0, 9)) == 0:
        method = draw(st.sampled_from(["GET", "PUT", "OPTIONS", "X", "HEAD", "post"]))
        message = replace(message, path=draw(PATHS), method=method)
    return message


def _quoted(text: str) -> str:
    return text if text.isalnum() and text.isascii() else quote_plus(text, errors="surrogatepass")


def signed(message: Message, key: Credentials, *, in_url: bool) -> Message:
    """Return a request with a signature, in its header or in its URL."""
    request = AWSRequest(
        message.method,
        f"http://{message.headers['Host']}{message.path}",
        {k: v for k, v in message.headers.items() if v.isascii() and k != "Expect"},
        b"" if in_url else message.body,
    )
    signer: SigV4Auth = SigV4Auth(key, "sqs", "us-east-1")
    if in_url:
        signer = UrlSigner(key, "sqs", "us-east-1")
        signer.body = message.body
    signer.add_auth(request)
    path = "/" + request.url.partition("//")[2].partition("/")[2]
    headers = {k: v.decode() if isinstance(v, bytes) else v for k, v in request.headers.items()}
    return replace(message, headers=headers, path=path)


# Changes of the bytes: what to put in the place of what, once.
BYTES = [
    (b"\r\nContent-Length", b"\r\nX-Fold: a\r\n b\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nX-Cr: a\rb\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nX-Lf: a\nX-Injected: b\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nX-Nul: a\0b\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\n: empty\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nno colon\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nX-Amz-Target : a\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nX-Amz-Target: AmazonSQS.ListQueues\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nContent-Type: text/xml\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nContent-Length: 3\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nTransfer-Encoding: chunked\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nTransfer-Encoding:\x0bchunked\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nUpgrade: websocket\r\nContent-Length"),
    (b"\r\nContent-Length", b"\r\nX-Long: " + b"x" * 70_000 + b"\r\nContent-Length"),
    (
        b"\r\nContent-Length",
        b"".join(b"\r\nX-%d: y" % n for n in range(300)) + b"\r\nContent-Length",
    ),
    (b"\r\nContent-Length", b"\r\nHost: evil.example\r\nContent-Length"),
    (b"Content-Length: ", b"Content-Length: -"),
    (b"Content-Length: ", b"Content-Length: +"),
    (b"Content-Length: ", b"Content-Length: 0x"),
    (b"Content-Length: ", b"Content-Length: 99999999999999999999"),
    (b"Content-Length: ", b"Content-Length: 1"),
    (b"Content-Length: ", b"Transfer-Encoding: chunked\r\nX-Was: "),
    (b"Content-Length: ", b"X-Was: "),
    (b"Host: ", b"X-Host: "),
    (b"Host: ", b"Host: a/b@"),
    (b"POST /", b"POST http://127.0.0.1/"),
    (b"POST /", b"POST //"),
    (b"POST /", b"POST /../"),
    (b"POST /", b"POST /%2e%2e/"),
    (b"POST /", b"POST /a/../" + QUEUE.encode()),
    (b"POST /", b"POST /" + b"a" * 70_000),
    (b"POST /", b"POST /\0"),
    (b"POST /", b"POST /\xff"),
    (b"POST /", b"POST *"),
    (b"POST /", b"\r\n\r\nPOST /"),
    (b"POST /", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03POST /"),
    (b"POST /", b"CONNECT /"),
    (b"POST ", b"POST  "),
    (b"POST ", b"P\0ST "),
    (b" HTTP/1.1", b""),
    (b" HTTP/1.1", b" HTTP/1.0"),
    (b" HTTP/1.1", b" HTTP/2.0"),
    (b" HTTP/1.1", b" HTTP/9.9"),
    (b"\r\n", b"\n"),
    (b"\r\n\r\n", b"\r\n \r\n"),
    (b"\r\n\r\n", b"\r\n\r\nFFFFFFFFFFFFFFFFF\r\n"),
    (b"\r\n\r\n", b'\r\n\r\n2;ext="\r\n\r\n"\r\n{}\r\n0\r\nX-Amz-Target: b\r\n\r\n'),
]


@st.composite
def streams(draw: DrawFn) -> bytes:
    """Give what a client may write on a connection: one to three requests, changed as bytes."""
    data = b""
    last = draw(st.integers(0, 2))
    for number in range(last + 1):
        message = draw(messages())
        # The answer to a HEAD cannot be told from the next.
        method = "GET" if message.method == "HEAD" else message.method
        written = replace(message, method=method).written(close=number == last)
        for old, new in draw(st.lists(st.sampled_from(BYTES), max_size=3)):
            written = written.replace(old, new, 1)
        data += written
    if draw(st.integers(0, 3)) == 0:
        data = data[: draw(st.integers(0, len(data)))]
    return data
