"""The grammar of the command line: `pharos NOUN VERB [NAME] [--flags]`, its commands, parser, help and completion."""
