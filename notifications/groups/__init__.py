"""Turns groups of incidents that are due into notifications: first messages, changes and
reminders."""
