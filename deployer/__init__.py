"""Runs the deployments that the control plane has queued: builds revisions, starts releases, and routes traffic to
them."""
