"""The actions of SNS on topics, their subscriptions and what is published to them."""
