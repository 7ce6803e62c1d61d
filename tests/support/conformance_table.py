"""Which test exercises which member and error of AWS's service model, on either wire.

In the names `a(b|c)d` stands for `abd acd`. Each test of the table fails when a fact that stands
here for it did not truly occur in its run; a guard fails when the table misses a fact of the model.
"""

from collections.abc import Mapping
from typing import Literal, TypedDict

Kind = Literal["takes", "gives", "errors"]


class Does(TypedDict, total=False):
    """What a test has an action take, give and refuse."""

    takes: str
    gives: str
    errors: str


BATCH = "Successful Successful[].Id Failed Failed[].(Id|SenderFault|Code|Message)"
BATCH_ERRORS = (
    "TooManyEntriesInBatchRequest EmptyBatchRequest BatchEntryIdsNotDistinct InvalidBatchEntryId"
)
READ_ONLY = (
    "ApproximateNumberOfMessages|ApproximateNumberOfMessagesNotVisible|CreatedTimestamp"
    "|LastModifiedTimestamp|QueueArn|ApproximateNumberOfMessagesDelayed"
)
SETTABLE = (
    "Policy|VisibilityTimeout|MaximumMessageSize|MessageRetentionPeriod|DelaySeconds"
    "|ReceiveMessageWaitTimeSeconds|RedrivePolicy|KmsMasterKeyId|KmsDataKeyReusePeriodSeconds"
    "|RedriveAllowPolicy|SqsManagedSseEnabled"
)
FIFO = "ContentBasedDeduplication|DeduplicationScope|FifoThroughputLimit"
SYSTEM = (
    "SenderId|SentTimestamp|ApproximateReceiveCount|ApproximateFirstReceiveTimestamp"
    "|MessageGroupId|AWSTraceHeader"
)
LISTS = "StringListValues|BinaryListValues"
NO_QUEUE = "test_queue_that_is_not_there_is_told"

TABLE: Mapping[str, Mapping[str, Does]] = {
    "AddPermission": {
        "test_permissions_are_given_and_taken": Does(takes="QueueUrl Label AWSAccountIds Actions"),
        "test_permission_of_more_than_seven_actions_is_refused": Does(errors="OverLimit"),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "CancelMessageMoveTask": {
        "test_task_is_started_listed_and_cancelled": Does(
            takes="TaskHandle", gives="ApproximateNumberOfMessagesMoved"
        ),
        "test_task_of_nothing_is_not_found": Does(errors="ResourceNotFoundException"),
    },
    "ChangeMessageVisibility": {
        "test_change_hides_and_shows_and_delete_ends_a_message": Does(
            takes="QueueUrl ReceiptHandle VisibilityTimeout"
        ),
        "test_change_of_a_visible_message_is_refused": Does(errors="MessageNotInflight"),
        "test_handle_that_is_none_is_refused": Does(errors="ReceiptHandleIsInvalid"),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "ChangeMessageVisibilityBatch": {
        "test_change_batch_changes_the_good_and_tells_of_the_bad": Does(
            takes="QueueUrl Entries Entries[].(Id|ReceiptHandle|VisibilityTimeout)", gives=BATCH
        ),
        "test_batch_that_is_malformed_is_refused_whole": Does(errors=BATCH_ERRORS),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "CreateQueue": {
        "test_create_makes_a_queue_with_all_that_is_given": Does(
            takes=f"QueueName Attributes tags Attributes{{({SETTABLE})}}", gives="QueueUrl"
        ),
        "test_fifo_queue_is_made_with_its_attributes": Does(
            takes=f"Attributes{{(FifoQueue|{FIFO})}}"
        ),
        "test_attribute_that_queues_have_by_themselves_is_refused": Does(
            takes=f"Attributes{{({READ_ONLY})}}", errors="InvalidAttributeName"
        ),
        "test_attribute_that_there_is_not_is_refused": Does(errors="InvalidAttributeName"),
        "test_value_out_of_bounds_is_refused": Does(errors="InvalidAttributeValue"),
        "test_create_of_a_name_that_is_taken_is_refused": Does(errors="QueueNameExists"),
        "test_deleted_queue_is_gone_and_its_name_is_barred": Does(errors="QueueDeletedRecently"),
    },
    "DeleteMessage": {
        "test_change_hides_and_shows_and_delete_ends_a_message": Does(
            takes="QueueUrl ReceiptHandle"
        ),
        "test_handle_that_is_none_is_refused": Does(errors="ReceiptHandleIsInvalid"),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "DeleteMessageBatch": {
        "test_delete_batch_deletes_the_good_and_tells_of_the_bad": Does(
            takes="QueueUrl Entries Entries[].(Id|ReceiptHandle)", gives=BATCH
        ),
        "test_batch_that_is_malformed_is_refused_whole": Does(errors=BATCH_ERRORS),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "DeleteQueue": {
        "test_deleted_queue_is_gone_and_its_name_is_barred": Does(
            takes="QueueUrl", errors="QueueDoesNotExist"
        ),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "GetQueueAttributes": {
        "test_get_gives_each_attribute_by_its_name": Does(
            takes=f"QueueUrl AttributeNames AttributeNames[(All|{SETTABLE}|{READ_ONLY})]",
            gives=f"Attributes Attributes{{({SETTABLE}|{READ_ONLY})}}",
        ),
        "test_fifo_queue_is_made_with_its_attributes": Does(
            takes=f"AttributeNames[(FifoQueue|{FIFO})]", gives=f"Attributes{{(FifoQueue|{FIFO})}}"
        ),
        "test_attribute_that_there_is_not_is_refused": Does(errors="InvalidAttributeName"),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "GetQueueUrl": {
        "test_url_of_a_queue_is_found_by_name_and_owner": Does(
            takes="QueueName QueueOwnerAWSAccountId", gives="QueueUrl"
        ),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "ListDeadLetterSourceQueues": {
        "test_sources_of_a_dead_letter_queue_come_in_pages": Does(
            takes="QueueUrl NextToken MaxResults", gives="queueUrls NextToken"
        ),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "ListMessageMoveTasks": {
        "test_task_is_started_listed_and_cancelled": Does(
            takes="SourceArn MaxResults",
            gives="Results Results[].(TaskHandle|Status|SourceArn|DestinationArn|StartedTimestamp)"
            " Results[].(MaxNumberOfMessagesPerSecond|ApproximateNumberOfMessagesMoved)"
            " Results[].ApproximateNumberOfMessagesToMove",
        ),
        "test_task_that_loses_its_destination_fails_with_a_reason": Does(
            gives="Results[].FailureReason"
        ),
        "test_task_of_nothing_is_not_found": Does(errors="ResourceNotFoundException"),
    },
    "ListQueueTags": {
        "test_tags_are_given_listed_and_taken": Does(takes="QueueUrl", gives="Tags"),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "ListQueues": {
        "test_list_gives_pages_of_a_prefix": Does(
            takes="QueueNamePrefix NextToken MaxResults", gives="QueueUrls NextToken"
        ),
    },
    "PurgeQueue": {
        "test_purge_empties_a_queue_once_a_minute": Does(
            takes="QueueUrl", errors="PurgeQueueInProgress"
        ),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "ReceiveMessage": {
        "test_receive_takes_every_member_and_gives_the_whole_message": Does(
            takes="QueueUrl MessageSystemAttributeNames MessageSystemAttributeNames[All]"
            " MessageAttributeNames MaxNumberOfMessages VisibilityTimeout WaitTimeSeconds",
            gives="Messages Messages[].(MessageId|ReceiptHandle|MD5OfBody|Body|Attributes)"
            " Messages[].(MD5OfMessageAttributes|MessageAttributes)"
            " Messages[].MessageAttributes{}.(StringValue|BinaryValue|DataType)"
            f" Messages[].Attributes{{({SYSTEM})}}",
        ),
        "test_receive_gives_each_system_attribute_by_its_name": Does(
            takes=f"MessageSystemAttributeNames[({SYSTEM}|SequenceNumber|MessageDeduplicationId)]"
            " MessageSystemAttributeNames[DeadLetterQueueSourceArn] AttributeNames"
            " AttributeNames[All]",
        ),
        "test_receive_over_the_limit_in_flight_is_refused": Does(errors="OverLimit"),
        "test_receive_of_a_dead_letter_names_its_source": Does(
            gives="Messages[].Attributes{DeadLetterQueueSourceArn}"
        ),
        "test_send_gives_numbers_that_grow_and_the_receiver_sees_them": Does(
            gives="Messages[].Attributes{(SequenceNumber|MessageDeduplicationId)}"
        ),
        "test_receive_with_an_attempt_id_gives_the_same_again": Does(
            takes="ReceiveRequestAttemptId"
        ),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "RemovePermission": {
        "test_permissions_are_given_and_taken": Does(takes="QueueUrl Label"),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "SendMessage": {
        "test_send_takes_every_member_and_answers_with_digests": Does(
            takes="QueueUrl MessageBody DelaySeconds MessageAttributes MessageSystemAttributes"
            " MessageAttributes{}.(StringValue|BinaryValue|DataType) MessageGroupId"
            " MessageSystemAttributes{}.(StringValue|DataType)"
            " MessageSystemAttributes{AWSTraceHeader}",
            gives="MD5OfMessageBody MD5OfMessageAttributes MD5OfMessageSystemAttributes MessageId",
        ),
        "test_send_refuses_values_that_are_lists": Does(
            takes=f"MessageAttributes{{}}.({LISTS}) MessageSystemAttributes{{}}.({LISTS})",
            errors="UnsupportedOperation",
        ),
        "test_send_refuses_a_trace_header_that_is_no_text": Does(
            takes="MessageSystemAttributes{}.BinaryValue"
        ),
        "test_send_refuses_characters_that_xml_has_not": Does(errors="InvalidMessageContents"),
        "test_send_gives_numbers_that_grow_and_the_receiver_sees_them": Does(
            takes="MessageGroupId MessageDeduplicationId", gives="SequenceNumber"
        ),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "SendMessageBatch": {
        "test_send_batch_stores_the_good_and_tells_of_the_bad": Does(
            takes="QueueUrl Entries"
            " Entries[].(Id|MessageBody|DelaySeconds|MessageAttributes|MessageSystemAttributes)"
            " Entries[].MessageAttributes{}.(StringValue|BinaryValue|DataType)"
            " Entries[].MessageSystemAttributes{}.(StringValue|DataType)"
            " Entries[].MessageSystemAttributes{AWSTraceHeader} Entries[].MessageGroupId",
            gives=f"{BATCH} Successful[].(MessageId|MD5OfMessageBody|MD5OfMessageAttributes)"
            " Successful[].MD5OfMessageSystemAttributes",
        ),
        "test_send_batch_refuses_values_that_are_lists": Does(
            takes=f"Entries[].(MessageAttributes|MessageSystemAttributes){{}}.({LISTS})",
            errors="UnsupportedOperation",
        ),
        "test_send_batch_refuses_a_trace_header_that_is_no_text": Does(
            takes="Entries[].MessageSystemAttributes{}.BinaryValue"
        ),
        "test_batch_that_is_malformed_is_refused_whole": Does(errors=BATCH_ERRORS),
        "test_send_batch_that_is_too_long_in_all_is_refused_whole": Does(
            errors="BatchRequestTooLong"
        ),
        "test_send_batch_gives_numbers_that_grow": Does(
            takes="Entries[].(MessageGroupId|MessageDeduplicationId)",
            gives="Successful[].SequenceNumber",
        ),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "SetQueueAttributes": {
        "test_set_changes_all_that_is_given": Does(
            takes=f"QueueUrl Attributes Attributes{{({SETTABLE})}}"
        ),
        "test_fifo_queue_has_defaults_that_can_be_changed": Does(takes=f"Attributes{{({FIFO})}}"),
        "test_attribute_that_queues_have_by_themselves_is_refused": Does(
            takes=f"Attributes{{(FifoQueue|{READ_ONLY})}}", errors="InvalidAttributeName"
        ),
        "test_attribute_that_there_is_not_is_refused": Does(errors="InvalidAttributeName"),
        "test_value_out_of_bounds_is_refused": Does(errors="InvalidAttributeValue"),
        "test_policy_over_its_limits_is_refused": Does(errors="OverLimit"),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "StartMessageMoveTask": {
        "test_task_is_started_listed_and_cancelled": Does(
            takes="SourceArn DestinationArn MaxNumberOfMessagesPerSecond", gives="TaskHandle"
        ),
        "test_task_of_nothing_is_not_found": Does(errors="ResourceNotFoundException"),
    },
    "TagQueue": {
        "test_tags_are_given_listed_and_taken": Does(takes="QueueUrl Tags"),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
    "UntagQueue": {
        "test_tags_are_given_listed_and_taken": Does(takes="QueueUrl TagKeys"),
        NO_QUEUE: Does(errors="QueueDoesNotExist"),
    },
}

# Which actions, what of them, and why it cannot occur, by AWS's documentation.
EXCLUDED: Mapping[tuple[str, Kind, str], str] = {
    ("every", "errors", "RequestThrottled"): (
        "Exceeds the permitted request rate for the queue: no rate is limited here."
    ),
    ("every", "errors", "InvalidSecurity"): (
        "The request was not made over HTTPS or did not use SigV4: neither is asked for yet."
    ),
    (
        "SendMessage SendMessageBatch ReceiveMessage",
        "errors",
        "Kms(AccessDenied|Disabled|InvalidKeyUsage|InvalidState|NotFound|OptInRequired|Throttled)",
    ): "AWS KMS says so of the queue's key: its id is kept and shown, no KMS is asked.",
    (
        "AddPermission CancelMessageMoveTask ChangeMessageVisibility ChangeMessageVisibilityBatch"
        " CreateQueue DeleteMessage DeleteMessageBatch DeleteQueue GetQueueAttributes GetQueueUrl"
        " ListDeadLetterSourceQueues ListMessageMoveTasks ListQueueTags ListQueues PurgeQueue"
        " ReceiveMessage RemovePermission SetQueueAttributes StartMessageMoveTask TagQueue"
        " UntagQueue",
        "errors",
        "UnsupportedOperation",
    ): "Error code 400. Unsupported operation: no parameter of these is documented to get it.",
    ("every", "errors", "InvalidAddress"): (
        "The specified ID is invalid: AWS says QueueDoesNotExist of an address that names no queue."
    ),
    ("DeleteMessage", "errors", "InvalidIdFormat"): (
        "The specified receipt handle isn't valid for the current version: there is one version."
    ),
    ("ReceiveMessage", "gives", f"Messages[].MessageAttributes{{}}.({LISTS})"): (
        "Not implemented. Reserved for future use."
    ),
    ("ReceiveMessage", "takes", f"AttributeNames[({SETTABLE}|{READ_ONLY}|FifoQueue|{FIFO})]"): (
        "The model lists the attributes of queues; the documentation, those of messages."
    ),
}

# The names and statuses of errors on the Query wire; the shapes are their names on the JSON wire.
ERRORS: Mapping[str, tuple[str, int]] = {
    **{
        shape: (f"AWS.SimpleQueueService.{shape}", 400)
        for shape in (
            *("BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest"),
            *("InvalidBatchEntryId", "MessageNotInflight", "QueueDeletedRecently"),
            *("TooManyEntriesInBatchRequest", "UnsupportedOperation"),
        )
    },
    **{
        shape: (shape, 400)
        for shape in ("InvalidAttributeName", "InvalidAttributeValue", "InvalidMessageContents")
    },
    "InvalidParameterValueException": ("InvalidParameterValue", 400),
    "MissingRequiredParameterException": ("MissingParameter", 400),
    "OverLimit": ("OverLimit", 403),
    "PurgeQueueInProgress": ("AWS.SimpleQueueService.PurgeQueueInProgress", 403),
    "QueueDoesNotExist": ("AWS.SimpleQueueService.NonExistentQueue", 400),
    "QueueNameExists": ("QueueAlreadyExists", 400),
    "ReceiptHandleIsInvalid": ("ReceiptHandleIsInvalid", 404),
    "ResourceNotFoundException": ("ResourceNotFoundException", 404),
}
