"""The command line `pharos`: a folder for each kind of resource, with its commands and their tables."""
