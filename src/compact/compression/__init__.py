"""How context shrinks: the pipeline, its ladder, the extractive summarizer."""
