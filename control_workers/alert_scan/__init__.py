"""The alert scan evaluates conditions on rollups and current states, and writes each change as an alert
event."""
