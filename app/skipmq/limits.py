"""The limits of Amazon SQS, in one place.

Source: the SQS Developer Guide, "Amazon SQS message quotas" and "Amazon SQS standard queue quotas",
and the documentation in botocore's SQS service model.
"""

BATCH_ENTRIES = 10
BATCH_ENTRY_ID_LENGTH = 80
MESSAGE_ATTRIBUTES = 10
ATTRIBUTE_NAME_LENGTH = 256
MESSAGE_BYTES = 1_048_576
MESSAGE_BYTES_LEAST = 1_024
BATCH_BYTES = 1_048_576
VISIBILITY_TIMEOUT = 43_200
DELAY_SECONDS = 900
WAIT_SECONDS = 20
RECEIVE_MESSAGES = 10
RETENTION_LEAST = 60
RETENTION_MOST = 1_209_600
QUEUE_NAME_LENGTH = 80
LIST_RESULTS = 1_000
POLICY_BYTES = 8_192
POLICY_STATEMENTS = 20
PERMISSION_ACTIONS = 7
KMS_REUSE_LEAST = 60
KMS_REUSE_MOST = 86_400
IDENTIFIER_LENGTH = 128
TAGS = 50
TAG_KEY_LENGTH = 128
TAG_VALUE_LENGTH = 256

# A 1 MiB body may be escaped to six bytes a character on the wire; a batch holds at most 1 MiB as
# well, so that a longer request can never be a valid one.
REQUEST_BYTES = 8 * MESSAGE_BYTES

DEFAULT_ACCOUNT = "000000000000"
DEFAULT_REGION = "us-east-1"
