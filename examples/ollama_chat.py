"""A chat with a local model that never overflows, and goes on where it ended last time.

In the clone: `pip install '.[ollama]'`; `ollama serve` runs, with the model. Ctrl-D ends it.
"""

import os

from compact import ContextManager

model = os.environ.get("CHAT_MODEL", "ollama:qwen3:8b")
with ContextManager(model, store="ollama_chat.db", session_id="chat") as ctx:
    print(f"{model}, {ctx.window.size:,} tokens, {len(ctx.history)} messages so far")
    while True:
        try:
            text = input("> ").strip()
        except EOFError:
            break
        if not text:
            continue
        ctx.add_message(role="user", content=text)
        for piece in ctx.stream():
            print(piece.text, end="", flush=True)
        print()
