"""Linears that add up the weights of what fired, in C++ that is compiled on first use; imports neurons and below."""
