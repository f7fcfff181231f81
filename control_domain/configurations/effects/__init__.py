"""How the actions of a plan are carried out: each within a transaction that somebody else opens and ends."""
