"""The demo shop's past events and live events."""
