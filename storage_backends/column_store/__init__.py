"""The analytical store that reports and receipts are read from."""
