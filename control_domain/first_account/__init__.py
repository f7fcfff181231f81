"""The account and sample resources that the first start of an installation creates, so that events can be sent at
once."""
