"""Fuzz the codecs of both wires by coverage: `make fuzz`, or this file with options of libFuzzer.

Whatever the bytes of a request are, decoding gives a call or an SqsError, and both can be encoded.
"""

import sys

import atheris

with atheris.instrument_imports(include=["skipmq.protocol", "skipmq.auth", "skipmq.actions"]):
    from skipmq.actions.sqs.table import ACTIONS
    from skipmq.auth.credentials import identify
    from skipmq.protocol import codec, errors
    from skipmq.protocol.call import Request

# Of which requests are made by putting something else into the middle.
SAMPLES = [
    b'{"QueueUrl":"http://h/1/q","MessageBody":"b","DelaySeconds":1,"MessageAttributes":{"a":'
    b'{"DataType":"Binary","BinaryValue":"AAA="}},"MessageGroupId":"g"}',
    b'{"QueueUrl":"http://h/1/q","Entries":[{"Id":"1","MessageBody":"b"},{"Id":"2"}]}',
    b'{"QueueName":"q","Attributes":{"DelaySeconds":"1"},"tags":{"a":"b"},"AWSAccountIds":["1"]}',
    b'{"QueueUrl":"q","MaxNumberOfMessages":10,"AttributeNames":["All"],"WaitTimeSeconds":20}',
    b"Action=SendMessage&Version=2012-11-05&MessageBody=b&MessageAttribute.1.Name=a"
    b"&MessageAttribute.1.Value.DataType=String&MessageAttribute.1.Value.StringValue=%E2%82%AC",
    b"Action=SendMessageBatch&SendMessageBatchRequestEntry.1.Id=1"
    b"&SendMessageBatchRequestEntry.1.MessageBody=b&SendMessageBatchRequestEntry.2.Id=2",
    b"Action=CreateQueue&QueueName=q&Attribute.1.Name=DelaySeconds&Attribute.1.Value=1&Tag.1.Key=a",
    b"Action=ReceiveMessage&AttributeName.1=All&MaxNumberOfMessages=10&MessageAttributeName.1=a",
    b"",
]
TARGETS = [f"AmazonSQS.{action}" for action in ACTIONS]
JSON = "application/x-amz-json-1.0"
FORM = "application/x-www-form-urlencoded"


def one_request(data: bytes) -> None:
    """Decode a request that is made of these bytes, and encode what comes of it."""
    given = atheris.FuzzedDataProvider(data)
    headers: dict[str, str] = {}
    if given.ConsumeBool():
        headers = {"x-amz-target": given.PickValueInList(TARGETS), "content-type": JSON}
    elif given.ConsumeBool():
        headers = {"content-type": FORM}
    for name in ("authorization", "x-amz-target", "content-type", "host", "x-amz-date"):
        if given.ConsumeIntInRange(0, 9) == 0:
            headers[name] = given.ConsumeUnicode(200)
    method = given.PickValueInList(["POST", "GET"])
    path = given.PickValueInList(["/", "/000000000000/orders", "/queue/orders", "/a/b/"])
    query = given.ConsumeString(300) if given.ConsumeBool() else ""
    sample = given.PickValueInList(SAMPLES)
    first, last = sorted(given.ConsumeIntListInRange(2, 0, len(sample)))
    body = sample[:first] + given.ConsumeBytes(atheris.ALL_REMAINING) + sample[last:]
    request = Request(method, path, headers, query, body, "http://localhost:9324", "id")
    try:
        identify(headers.get("authorization"), query)
        call = codec.decode(request)
    except errors.SqsError as error:
        codec.encode_error(request, error)
        return
    codec.encode_error(request, errors.InternalFailure())
    codec.encode(call, None)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_request)
    atheris.Fuzz()
