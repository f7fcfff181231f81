"""Delivers notifications. It leases them, sends them, and retries failed attempts."""
