"""The chat program, `compactctl chat`. Start at `app`.

What is drawn: `app`, screens (`chat_screen`, `first_screen`, `page_screen`, `review_screen`), and
widgets, one in a file. What is not, and needs no terminal: `opening` opens a session with a model,
`dialogue` asks and keeps what comes, `following` reads its events, `slash` lists the commands,
`actions` are what they do, `choices` says which models there are, `looks` what messages look like
in words, `problems` what is told of an error. Only this package needs Textual, the extra `chat`.
"""

NOTE = "chat"
"""The name of the note that says which model a session talks to."""
