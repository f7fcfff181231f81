"""What a person can do next after a refusal, in words of the command line.

The only module of the control domain that names commands and flags: the parts of messages that would differ if people
used another client.
"""
