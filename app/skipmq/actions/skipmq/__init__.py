"""SkipMQ's own actions, on the AWS JSON wire; the table has them all."""
