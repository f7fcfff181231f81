"""Routes requests for an environment's host names to the instances of its live release."""
