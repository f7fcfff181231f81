"""The desired state of each environment, and the workers that bring it about."""
