"""Messages: send, receive, delete, group commit and long polling."""
