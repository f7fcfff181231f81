"""One module per type of channel: it renders a message and sends it once."""
