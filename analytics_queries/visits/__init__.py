"""Visits of sites: what they were by day, kept for days that are over, and reports on them."""
