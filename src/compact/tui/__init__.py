"""The chat program, `compactctl chat`. Start at `app`.

These modules draw: the screens (`chat_screen`, `first_screen`, `page_screen`, `review_screen`) and
the widgets (`message_list`, `prompt_input`, `status_lines`). The others need no terminal. `opening`
opens a session with a model, `dialogue` asks the model and keeps its answers, and `following` reads
the events. `slash` lists the commands and `actions` runs them. `choices` lists models. `looks` and
`problems` put messages and errors into words. Only this package needs Textual (extra `chat`).
"""
