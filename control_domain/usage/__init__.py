"""What an account has and stores, by day."""
