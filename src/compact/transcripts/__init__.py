"""Reads transcripts: files that hold conversations, in the formats of many programs.

`reading.read` recognizes the format by the content and returns a `transcript.Transcript`.
`writing.write` writes messages back, for formats that can be written. `table` lists the formats. A
format that needs code has a module of its own. Any other format has a row of data in `shapes`. The
wire formats of single messages are in `messages.formats`.
"""
