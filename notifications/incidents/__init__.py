"""Alert events become incidents, and incidents become members of the groups of their recipients."""
