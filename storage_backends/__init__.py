"""Storage roles: one folder per role, with its interface and one adapter per engine."""
