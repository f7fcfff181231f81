"""Turns alert events into incidents, and adds the incidents to the groups of their recipients."""
