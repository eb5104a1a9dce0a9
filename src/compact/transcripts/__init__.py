"""Transcripts: files that hold conversations, in the formats of many programs.

`reading.read` recognizes the format by the content and returns a `transcript.Transcript`.
`writing.write` writes messages back, for formats that can be written. `table` lists the formats.
Programs that need code have a module of their own. Others have a row in `shapes`. The wire formats
of single messages are in `messages.formats`.
"""
