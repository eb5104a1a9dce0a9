"""An adapter for each provider's client, tokenizers and embedders."""
