"""Models: tokenizers, and an adapter for each provider's client."""
