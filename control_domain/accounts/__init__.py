"""Accounts, the people in them, and their API tokens."""
