"""Channels, rules, silences, thresholds, incidents and sent notifications, as people manage and read them."""
