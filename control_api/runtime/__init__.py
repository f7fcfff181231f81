"""What runs of each environment, as the deployer tells it, and which deployer it is."""
