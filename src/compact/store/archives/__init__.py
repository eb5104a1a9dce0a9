"""Archives of compressions (transcripts, summaries, events), and the files of archived sessions."""
