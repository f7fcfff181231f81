"""The page of an incident, which a signed link opens without a token."""
