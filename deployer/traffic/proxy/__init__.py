"""The embedded traffic adapter: a streaming HTTP/1.1 proxy in the platform's own process."""
