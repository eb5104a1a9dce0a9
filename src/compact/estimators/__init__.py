"""How tokens are counted, by the kit's own import paths: `tiktoken` and `noop`."""
