"""HTTP requests of channels to other servers, limited in time and size, and only to checked addresses."""
