"""Deployments, their logs, and the releases that they built."""
