"""Describes incidents in messages, from the facts of their events. There is one module for each family
of alert kinds. No I/O."""
