"""A session that never overflows (`context_manager`), compression in one call (`one_call`), and the
middleware for programs that keep their own list of messages (`compact_manager`).

`open_session` is an open session: its state (`state`), its history and its views (`views`).
`intake` takes messages in, and `prompt_sender` sends prompts.
"""
