"""How much the installation stores, and for how long."""
