"""Environments: desired state (replicas, running or hibernated) and gates (lock, window, approvals)."""
