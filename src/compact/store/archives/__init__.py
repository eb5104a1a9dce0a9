"""Archives of what was compacted: transcripts, summaries and events, beside the session's store."""
