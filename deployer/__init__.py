"""Carries out what the control plane has queued: builds revisions, runs them, brings traffic to them."""
