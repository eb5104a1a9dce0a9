"""A chat in a terminal. The lines that end in `# +` are all that compact adds.

In the clone: `pip install '.[openai]'`. It needs `OPENAI_API_KEY`. Ctrl-D ends it.
"""

import os

try:
    from openai import OpenAI
except ModuleNotFoundError:
    raise SystemExit("chat_loop needs the package openai: pip install '.[openai]'") from None

from compact import CompactConfig, CompactManager  # +

client = OpenAI()
model = os.environ.get("CHAT_MODEL", "gpt-4o-mini")
manager = CompactManager(CompactConfig(model=model, store="chat.db"))  # +
messages = [{"role": "system", "content": "Answer briefly."}]
while True:
    try:
        text = input("> ").strip()
    except EOFError:
        break
    if not text:
        continue
    messages.append({"role": "user", "content": text})
    sent = manager.preflight("chat", messages)  # +
    reply = client.chat.completions.create(model=model, messages=sent)  # was: messages=messages
    answer = reply.choices[0].message.content
    messages.append({"role": "assistant", "content": answer})
    print(answer)
