"""The broker, by subject: messages, and what the database keeps of queues."""
