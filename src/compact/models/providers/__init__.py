"""Adapters for the providers' clients, tokenizers, and embedders."""
