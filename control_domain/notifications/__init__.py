"""Manages channels, rules, silences and thresholds, and reads incidents and sent notifications, for people."""
