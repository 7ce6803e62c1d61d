"""The limits of Amazon SQS, in one place.

Source: the SQS Developer Guide, "Amazon SQS message quotas" and "Amazon SQS standard queue quotas",
and the documentation in botocore's SQS service model.
"""

import re

ACCOUNT = re.compile("[0-9]{12}")
REGION = re.compile("[a-z0-9-]{1,32}")
# Characters that XML 1.0 excludes and SQS refuses.
FORBIDDEN_CHARACTER = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
BATCH_ENTRIES = 10
MESSAGE_ATTRIBUTES = 10
ATTRIBUTE_NAME_LENGTH = 256
ATTRIBUTE_TYPE_LENGTH = 256
NUMBER_DIGITS = 38
# Longer than any valid number, which has 38 digits, zeros and an exponent.
NUMBER_LENGTH = 512
NUMBER_EXPONENTS = (-128, 126)
MESSAGE_BYTES = 1_048_576
MINIMUM_MESSAGE_BYTES = 1_024
BATCH_BYTES = 1_048_576
VISIBILITY_TIMEOUT = 43_200
DELAY_SECONDS = 900
# What a queue's MaximumDelaySeconds may allow: a year.
MAXIMUM_DELAY = 31_536_000
WAIT_SECONDS = 20
RECEIVE_MESSAGES = 10
IN_FLIGHT = 120_000
# The message attribute of priorities, and its values.
PRIORITY = "SkipMQ.Priority"
PRIORITIES = frozenset("0123456789")
# Messages a second, at most, that a queue's limit may name.
RECEIVE_RATE = 1_000_000
MINIMUM_RETENTION = 60
MAXIMUM_RETENTION = 1_209_600
QUEUE_NAME = 80
LIST_RESULTS = 1_000
PEEKED = 100
# Encoded size of a page of peeked messages; the rest is on the next page.
PEEKED_BYTES = 6 * MESSAGE_BYTES
# Messages that are read to order them otherwise: rank_messages.sql.
RANKED = 1_000
# Messages that are grouped by kind of failure: message_failures.sql.
GROUPED = 10_000
COUNTED_QUEUES = 200
PICKED = 1_000
POLICY_BYTES = 8_192
# SkipMQ's own limit.
BODY_SCHEMA_BYTES = 16_384
DEDUPLICATION_SECONDS = 31_536_000
MOVES_PER_SECOND = 500
# That of a redrive from the console or by a command which names none, so that a wrong one can be
# cancelled.
REDRIVES_PER_SECOND = 100
MOVE_TASKS_LISTED = 10
MAX_RECEIVE_COUNT = 1_000
REDRIVE_SOURCES = 10
POLICY_STATEMENTS = 20
PERMISSION_ACTIONS = 7
# KMS API Reference, DescribeKey: KeyId.
KMS_KEY_ID_LENGTH = 2_048
MINIMUM_KMS_REUSE = 60
MAXIMUM_KMS_REUSE = 86_400
# SkipMQ's own limit; tracers write a few hundred bytes. Not counted in the message's size.
TRACE_HEADER_LENGTH = 2_048
IDENTIFIER_LENGTH = 128
TAGS = 50
TAG_KEY_LENGTH = 128
TAG_VALUE_LENGTH = 256

# The longest DNS name with a port. Longer ones are not cached.
HOST = 260
# JSON may escape a character of the 1 MiB of messages as six bytes; the rest is for names.
REQUEST_BYTES = 6 * MESSAGE_BYTES + 262_144

# SkipMQ's own: of a form to the console without a session.
FORM_BYTES = 8_192

DEFAULT_ACCOUNT = "000000000000"
DEFAULT_REGION = "us-east-1"
