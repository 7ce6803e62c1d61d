"""The actions of SQS; the table has them all."""
