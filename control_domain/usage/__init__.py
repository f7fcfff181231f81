"""The objects of an account, and the data that it stores, by day."""
