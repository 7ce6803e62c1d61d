"""Amazon SNS: its actions, errors and the Query protocol that they use, without I/O."""
