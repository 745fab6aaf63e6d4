"""What an op has to do at least, from the shapes it was called with."""
