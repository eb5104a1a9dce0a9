"""The chat program, `compactctl chat`. Start reading at `app`.

These modules draw: the screens (`chat_screen`, `screens`) and the widgets (`message_list`,
`prompt_input`, `status_lines`). The others need no terminal. `opening` opens a session with a
model. `dialogue` asks the model and stores its answers. `following` reads the events. `slash` lists
the commands, and `actions` runs them. `choices` lists models. `looks` and `problems` turn messages
and errors into text. Only this package needs Textual (extra `chat`).
"""
