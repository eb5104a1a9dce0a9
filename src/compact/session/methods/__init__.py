"""The methods of `ContextManager`, by what people do with a session."""
