"""The reference of the public API: an OpenAPI document, written by hand, and a page that shows it."""
