"""Notifications: alert events become incidents, rules decide who is told about them, and channels
deliver the messages."""
