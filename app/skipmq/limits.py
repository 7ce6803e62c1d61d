"""The limits of Amazon SQS, in one place.

Source: the SQS Developer Guide, "Amazon SQS message quotas" and "Amazon SQS standard queue quotas",
and the documentation in botocore's SQS service model.
"""

import re

ACCOUNT = re.compile("[0-9]{12}")
# What XML 1.0 cannot hold, and SQS refuses.
FORBIDDEN_CHARACTER = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
BATCH_ENTRIES = 10
MESSAGE_ATTRIBUTES = 10
ATTRIBUTE_NAME_LENGTH = 256
ATTRIBUTE_TYPE_LENGTH = 256
NUMBER_DIGITS = 38
# The longest number that is not refused has 38 digits, zeros and an exponent: far fewer characters.
NUMBER_LENGTH = 512
NUMBER_EXPONENTS = (-128, 126)
MESSAGE_BYTES = 1_048_576
MESSAGE_BYTES_LEAST = 1_024
BATCH_BYTES = 1_048_576
VISIBILITY_TIMEOUT = 43_200
DELAY_SECONDS = 900
WAIT_SECONDS = 20
RECEIVE_MESSAGES = 10
IN_FLIGHT = 120_000
RETENTION_LEAST = 60
RETENTION_MOST = 1_209_600
LIST_RESULTS = 1_000
PEEKED = 100
# Of a page of peeked messages as it is sent: the next page has what does not fit.
PEEKED_BYTES = 6 * MESSAGE_BYTES
COUNTED_QUEUES = 200
PICKED = 1_000
POLICY_BYTES = 8_192
MOVES_PER_SECOND = 500
MOVE_TASKS_LISTED = 10
MAX_RECEIVE_COUNT = 1_000
REDRIVE_SOURCES = 10
POLICY_STATEMENTS = 20
PERMISSION_ACTIONS = 7
# KMS API Reference, DescribeKey: KeyId.
KMS_KEY_ID_LENGTH = 2_048
KMS_REUSE_LEAST = 60
KMS_REUSE_MOST = 86_400
# Ours: tracers write a few hundred. It does not count towards the size of its message.
TRACE_HEADER_LENGTH = 2_048
IDENTIFIER_LENGTH = 128
TAGS = 50
TAG_KEY_LENGTH = 128
TAG_VALUE_LENGTH = 256

# The longest name of DNS, and a port. What is longer is not kept in caches.
HOST = 260
# A 1 MiB body may be escaped to six bytes a character on the wire; a batch holds at most 1 MiB as
# well, so that a request longer than that and its names can never be a valid one.
REQUEST_BYTES = 6 * MESSAGE_BYTES + 262_144

DEFAULT_ACCOUNT = "000000000000"
DEFAULT_REGION = "us-east-1"
