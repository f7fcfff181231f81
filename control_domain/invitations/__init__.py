"""Invitations of people to accounts."""
