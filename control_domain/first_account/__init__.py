"""What the first start of a deployment creates, so that events can be sent at once."""
