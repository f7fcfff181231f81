"""The only way by which channels reach other servers over HTTP: bounded in time and size, and to checked addresses."""
