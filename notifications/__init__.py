"""Notifications: incidents from alert events, rules, grouping, and delivery over channels."""
