"""Whole networks of the field, written on the public names alone."""
