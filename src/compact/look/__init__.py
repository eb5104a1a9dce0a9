"""What agents forgot: measures of the compactions in people's own transcripts, read only.

`measures` follows one conversation, `lines` reads its texts, `report` puts the files together,
`differences` compares with moments without a compaction, `moments` picks what is told, and `page`
draws all of it.
"""
