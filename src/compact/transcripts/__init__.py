"""Transcripts: the file formats people keep conversations in.

`reading.read` finds the format by content and gives a `transcript.Transcript`; `writing.write` puts
messages back into a file of the same kind where that kind is written. `table` lists the formats and
how each is recognized; every format has a module of its own. The wire formats of single messages
live in `core.formats`.
"""
