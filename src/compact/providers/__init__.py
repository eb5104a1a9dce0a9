"""Models: tokenizers now; chat models and embedders follow with the models issue."""
