"""Commands on queues and their messages."""
