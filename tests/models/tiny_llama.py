"""A real llama.cpp server with a tiny model made on the spot: random weights, a real tokenizer.

`build` trains a byte-level BPE vocabulary on the texts of Python's own library and writes a GGUF
file beside it; nothing is downloaded. What the model writes is garbage; how its server counts,
caches and refuses is not. `serve` runs in a process of its own and ends when its standard input
does, so that it never outlives whoever started it, however that died:

    python -m tests.models.tiny_llama serve FOLDER N_CTX     prints READY and the URL

What the chat template puts around each part is `FRAMING`.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from compact.messages.tokens import Framing

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(sysconfig.get_paths()["stdlib"])
NAME = "tiny"
START, END, NOTHING = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
CONTROL = (NOTHING, START, END)
MARKS = ("<tools>", "</tools>", "<tool_call>", "</tool_call>", "<tool_result>", "</tool_result>")
VOCABULARY, WIDTH, LAYERS, HEADS, INNER = 4096, 128, 4, 4, 384
ROLES = ("system", "user", "assistant", "tool")

TEMPLATE = """\
{%- macro written(role, text) -%}
{{ '<|im_start|>' + role + '\n' + text + '<|im_end|>\n' }}
{%- endmacro -%}
{%- if tools -%}
{%- set shown = namespace(text='<tools>') -%}
{%- for tool in tools -%}{%- set shown.text = shown.text + '\n' + (tool | tojson) -%}{%- endfor -%}
{{- written('system', shown.text + '\n</tools>') -}}
{%- endif -%}
{%- for message in messages -%}
{%- set said = namespace(text=(message.content or '')) -%}
{%- for call in message.tool_calls or [] -%}
{%- set given = call.function.arguments -%}
{%- set given = given if given is string else (given | tojson) -%}
{%- set called = '<tool_call>' + call.function.name + '\n' + given + '</tool_call>' -%}
{%- set said.text = said.text + called -%}
{%- endfor -%}
{%- if message.role == 'tool' -%}
{%- set said.text = '<tool_result>\n' + said.text + '</tool_result>' -%}
{%- endif -%}
{{- written(message.role, said.text) -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""
"""Messages as ChatML writes them; schemas as JSON, before everything else."""

MISTRAL = """\
{%- if messages[0].role == 'system' -%}
{%- set system = messages[0].content -%}{%- set turns = messages[1:] -%}
{%- else -%}{%- set system = '' -%}{%- set turns = messages -%}{%- endif -%}
{%- set shown = namespace(index=0, tools='') -%}
{%- for message in turns -%}
{%- if message.role == 'user' or (message.role == 'assistant' and not message.tool_calls) -%}
{%- if (message.role == 'user') != (shown.index % 2 == 0) -%}
{{- raise_exception('After the optional system message, conversation roles must alternate') -}}
{%- endif -%}
{%- set shown.index = shown.index + 1 -%}
{%- endif -%}
{%- endfor -%}
{%- if tools -%}
{%- for tool in tools -%}
{%- set shown.tools = shown.tools + '\n' + (tool | tojson) -%}
{%- endfor -%}
{{- '[AVAILABLE_TOOLS]' + shown.tools + '[/AVAILABLE_TOOLS]\n' -}}
{%- endif -%}
{%- if system -%}{{- system + '\n\n' -}}{%- endif -%}
{%- for message in turns -%}
{%- if message.role == 'user' -%}
{{- '[INST]' + message.content + '[/INST]' -}}
{%- elif message.role == 'assistant' -%}
{%- if message.content -%}{{- message.content -}}{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{%- set given = call.function.arguments -%}
{%- set given = given if given is string else (given | tojson) -%}
{{- '[TOOL_CALLS]' + call.function.name + '\n' + given -}}
{%- endfor -%}
{{- '</s>' -}}
{%- elif message.role == 'tool' -%}
{{- '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' -}}
{%- else -%}
{{- raise_exception('Only user, assistant and tool roles are supported') -}}
{%- endif -%}
{%- endfor -%}
"""
"""Messages as templates of Mistral's kind write and refuse them: calls and results are no turns."""
GEMMA = """\
{%- if messages[0].role == 'system' -%}
{%- set first = messages[0].content + '\n\n' -%}{%- set turns = messages[1:] -%}
{%- else -%}{%- set first = '' -%}{%- set turns = messages -%}{%- endif -%}
{%- for message in turns -%}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') -}}
{%- endif -%}
{%- set role = 'model' if message.role == 'assistant' else message.role -%}
{{- '<start_of_turn>' + role + '\n' + (first if loop.first else '') -}}
{{- message.content | trim -}}
{{- '<end_of_turn>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\n' -}}{%- endif -%}
"""
"""As those of Gemma's kind, which know no tools."""
TEMPLATES = {"chatml": TEMPLATE, "mistral": MISTRAL, "gemma": GEMMA}

FRAMING = Framing(
    "the chat template of tests/models/tiny_llama.py",
    per_message=5,  # the two marks, the role, and a line break after each
    priming=3,  # a mark, the role, a line break
    per_call=3,  # two marks and a line break, for a call and for a result
    names=1,
    per_parallel=0,
    schemas="json",
    per_schemas=8,  # a message, two marks and the last line break
)


class Model(NamedTuple):
    """What `build` leaves in its folder."""

    weights: Path
    tokenizer: Path
    """For `HuggingFaceEstimator`."""


def model_in(folder: Path) -> Model:
    return Model(folder / "tiny.gguf", folder / "tokenizer.json")


# --- making the model -----------------------------------------------------------------------------


def build(folder: Path) -> Model:
    model = model_in(folder)
    trained = _trained()
    trained.save(str(model.tokenizer))
    _write_weights(model.weights, json.loads(trained.to_str())["model"])
    return model


def _library() -> Iterator[str]:
    """Texts of Python's own library, and the roles often enough to be one token each."""
    for path in [LIBRARY / "pydoc_data/topics.py", *sorted(LIBRARY.glob("*.py"))[:80]]:
        yield path.read_text(encoding="utf-8")
    yield "\n".join(ROLES * 2000)


def _trained() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    marks = [AddedToken(mark, special=True, normalized=False) for mark in (*CONTROL, *MARKS)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=marks,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(_library(), trainer)
    return trained


def _write_weights(path: Path, trained: dict[str, Any]) -> None:
    import gguf
    import numpy

    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, gguf, trained)
    drawn = numpy.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        weights = drawn.standard_normal(shape, dtype=numpy.float32) * 0.08
        writer.add_tensor(f"{name}.weight", weights.astype(numpy.float16))

    def add_ones(name: str) -> None:
        writer.add_tensor(f"{name}.weight", numpy.ones(WIDTH, numpy.float32))

    add("token_embd", VOCABULARY, WIDTH)
    add("output", VOCABULARY, WIDTH)
    add_ones("output_norm")
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        add_ones(f"{block}.attn_norm")
        add_ones(f"{block}.ffn_norm")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"{block}.{name}", WIDTH, WIDTH)
        add(f"{block}.ffn_gate", INNER, WIDTH)
        add(f"{block}.ffn_up", INNER, WIDTH)
        add(f"{block}.ffn_down", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: Any, gguf: Any, trained: dict[str, Any]) -> None:
    words = sorted(trained["vocab"], key=trained["vocab"].__getitem__)
    assert len(words) == VOCABULARY, f"{len(words)} tokens were learned"
    merges = [each if isinstance(each, str) else " ".join(each) for each in trained["merges"]]
    kinds = dict.fromkeys((*CONTROL, *MARKS), gguf.TokenType.CONTROL)
    writer.add_name(NAME)
    writer.add_context_length(131_072)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_merges(merges)
    writer.add_token_types([kinds.get(word, gguf.TokenType.NORMAL) for word in words])
    writer.add_bos_token_id(words.index(NOTHING))
    writer.add_eos_token_id(words.index(END))
    writer.add_pad_token_id(words.index(NOTHING))
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_chat_template(TEMPLATE)


# --- serving it -----------------------------------------------------------------------------------


def serve(folder: Path, n_ctx: int, template: str) -> None:
    """Serve the folder's model with one of `TEMPLATES` until standard input ends."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # carries no types
    given = xllamacpp.CommonParams()
    given.model.path = str(model_in(folder).weights)
    given.model_alias = {NAME}
    given.hostnames = ["127.0.0.1"]
    given.port = _free_port()
    given.n_ctx = n_ctx
    given.n_parallel = 1
    given.fit_params = given.ctx_shift = given.warmup = False
    given.use_jinja = given.endpoint_props = True
    given.chat_template = TEMPLATES[template]
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
    given.verbosity = 1
    server = xllamacpp.Server(given)
    print("READY", server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # nothing is worth the second and a half that an orderly end takes


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """For a process that imports this module."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


@contextmanager
def serving(folder: Path, n_ctx: int, template: str = "chatml") -> Iterator[str]:
    """The URL of a server for the folder's model, which is gone afterwards."""
    command = [sys.executable, "-m", "tests.models.tiny_llama", "serve"]
    command += [str(folder), str(n_ctx), template]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        ready = next((line for line in process.stdout if line.startswith("READY")), "")
        assert ready, f"the server did not start; it ended with {process.wait()}"
        yield ready.split()[1]
    finally:
        process.communicate()  # ends its standard input, and waits


if __name__ == "__main__":
    serve(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
