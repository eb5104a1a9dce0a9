"""HTML pages for a browser. A page is one file that needs no server and no network.

`session_data` collects the data of a session. `page` builds the file from `view.html`, `view.css`
and `view.js`. The content of a conversation is data in the page, never markup.
"""
