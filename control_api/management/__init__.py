"""The typed operations of the management API, one module per noun."""
