"""One call: a conversation that is too long, made to fit. Needs no key and no network."""

from compact import compress

messages = [{"role": "system", "content": "You help a lighthouse keeper."}]
for night in range(200):
    messages += [
        {"role": "user", "content": f"Night {night}: lamp {night % 7} flickers. What do I do?"},
        {"role": "assistant", "content": f"Clean wick {night % 7}, then log it as entry {night}."},
    ]
messages.append({"role": "user", "content": "Which lamp was it last night?"})

short = compress(messages, max_tokens=1_000)
print(f"{len(messages)} messages became {len(short)}; the last one: {short[-1]['content']}")
