"""The layer under the typed routes: access, bodies, queries, pages, versions, and their OpenAPI document.

The routes themselves are in `control_api/management/`, one module per noun, listed in `all_operations.py`.
"""
