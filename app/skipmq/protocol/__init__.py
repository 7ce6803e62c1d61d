"""What SQS is, without I/O: requests, answers, codecs, names, attributes, limits, errors."""
