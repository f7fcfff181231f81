"""What is wanted of each environment, and its being brought about."""
