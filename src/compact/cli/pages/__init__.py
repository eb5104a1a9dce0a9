"""Pages for a browser: one file each that needs nothing beside it, no server and no network.

`session_data` says what a page tells of a session, `replay` lives a conversation from a file again,
`page` puts the file together from `view.html`, `view.css` and the scripts beside them. What a
conversation holds is data in it and never markup.
"""
