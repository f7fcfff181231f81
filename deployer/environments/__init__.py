"""The desired state of each environment, and the workers that reconcile environments with it."""
