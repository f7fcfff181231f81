"""From the bytes of a body to typed structs, or to the list of all that is wrong with it."""
