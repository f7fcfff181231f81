"""Folder trees that a tenant may still write while Pharos walks them."""
