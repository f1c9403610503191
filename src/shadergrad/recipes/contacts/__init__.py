"""Shared parts of the coevolution transformer's recipe and prediction."""
