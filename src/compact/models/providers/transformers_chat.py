"""Runs a model in this process with the package `transformers`, from a folder or by name.

The model's own chat template writes the prompt. A model without a template gets plain text. Text of
a message never becomes a control token, even if it spells one. A worker thread generates one answer
at a time.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from threading import Event, Lock
from typing import Any

from compact.errors import ContextOverflow, ModelRefused, ModelUnavailable
from compact.messages.asking import ASK, Abilities, Ask, Limits
from compact.messages.context import ActiveContext, render_text, sendable
from compact.messages.formats.known import prompt_of
from compact.messages.formats.wire import NO_IMAGE
from compact.messages.formats.wire_safe import plainly
from compact.messages.messages import Message
from compact.messages.replies import Delta, Finish, Reply, Usage
from compact.models.providers.clients import how_to_install
from compact.models.providers.failures import mapped

_WINDOWS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
"""Names that model configurations use for the size of the window."""
_MOST = 10_000_000
"""A tokenizer that does not know the window gives a number far above this one."""


class TransformersChat:
    """A causal or an encoder-decoder model. It is loaded when it is first asked.

    `folder` is a folder, or a name that `transformers` resolves. `timeout` is in seconds, for one
    whole answer. `max_tokens` limits answers that have no limit of their own. Tools are refused,
    because each model writes its calls differently, and nothing here reads them.
    """

    def __init__(
        self, folder: str, *, timeout: float = 600, max_tokens: int = 1024, device: str = "cpu"
    ) -> None:
        self.name = f"transformers:{folder}"
        self.abilities = Abilities(tools=False, counts=True)
        self._folder = str(folder)
        self._timeout = timeout
        self._max_tokens = max_tokens
        self._device = device
        self._reading = Lock()
        """Held while a prompt is written, because a tokenizer serves one thread at a time."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="compact-transformers")

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        """Return the whole answer. Cancelling stops the model after its next token.

        Raises:
            ContextOverflow: prompt and answer exceed the window; nothing was run.
            ModelUnavailable: the answer took longer than `timeout`.
        """
        stop = Event()
        try:
            async with asyncio.timeout(self._timeout):
                ids, most = await self._fitting(context, ask)
                generate = partial(self._answer, ids, most, _sampling(ask), stop)
                with mapped(self.name):
                    return await asyncio.get_running_loop().run_in_executor(self._worker, generate)
        except TimeoutError:
            text = f"{self.name} did not answer within {self._timeout:g} seconds"
            raise ModelUnavailable(text, model=self.name) from None
        finally:
            stop.set()

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """Yield the whole answer in one piece, then the reply.

        Raises:
            As `complete`.
        """
        reply = await self.complete(context, ask)
        assert isinstance(reply.message, Message), "it makes messages itself"
        yield Delta(text=reply.message.text)
        yield Delta(reply=reply)

    async def count(self, context: ActiveContext) -> int | None:
        """Return the prompt's exact token count by the model's own tokenizer."""
        self._check(context)
        with mapped(self.name):
            return len(await asyncio.to_thread(self._ids, context))

    async def limits(self) -> Limits:
        """Return the window from the model's configuration."""
        with mapped(self.name):
            window = await asyncio.to_thread(lambda: self._window)
        return Limits(window=window, trained=window)

    async def aclose(self) -> None:
        """Accept no more prompts. A running answer continues to its end."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    # --- asking -----------------------------------------------------------------------------------

    async def _fitting(self, context: ActiveContext, ask: Ask) -> tuple[list[int], int]:
        """Return the prompt's tokens, and the most tokens that the answer may have."""
        self._check(context)
        with mapped(self.name):
            ids, window = await asyncio.to_thread(lambda: (self._ids(context), self._window))
        most = ask.max_tokens or self._max_tokens
        if window is None:
            return ids, most
        reserve = 0 if self._two_parts else ask.max_tokens or 1
        if len(ids) + reserve > window:
            raise ContextOverflow(
                f"{self.name}: the prompt has {len(ids):,} tokens, the answer may have "
                f"{reserve:,}, and the window has {window:,}",
                tokens=len(ids),
                limit=window,
            )
        return ids, most if self._two_parts else min(most, window - len(ids))

    def _check(self, context: ActiveContext) -> None:
        if sendable(context).tools:
            raise ModelRefused(f"{self.name} cannot be given tools", model=self.name)

    # --- the prompt -------------------------------------------------------------------------------

    def _ids(self, context: ActiveContext) -> list[int]:
        """Return the prompt as tokens. Text of a message never becomes a control token."""
        with self._reading:
            tokenizer = self._tokenizer
            if not tokenizer.chat_template:
                text = render_text(context.messages)
                if isinstance(context.system, str):
                    text = f"{context.system}\n{text}"
                if not self._two_parts:
                    text += "\nassistant:\n"
                return list(tokenizer(text, split_special_tokens=True)["input_ids"])
            return list(
                tokenizer.apply_chat_template(
                    _chat(context),
                    add_generation_prompt=True,
                    sanitize_control_tokens=True,
                    return_dict=False,
                )
            )

    @cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401 - of a package that may be missing
        tokenizer = self._loaded("AutoTokenizer")
        if (
            "sanitize_control_tokens"
            not in inspect.signature(tokenizer.apply_chat_template).parameters
        ):
            raise ModelRefused(
                "this version of transformers cannot tell control tokens from what people wrote; "
                "install a newer one: pip install -U transformers",
                model=self.name,
            )
        return tokenizer

    @cached_property
    def _config(self) -> Any:  # noqa: ANN401 - of a package that may be missing
        return self._loaded("AutoConfig")

    @property
    def _two_parts(self) -> bool:
        """Whether prompt and answer have separate windows, as in encoder-decoder models."""
        return bool(self._config.is_encoder_decoder)

    @cached_property
    def _window(self) -> int | None:
        config = self._config.get_text_config()
        for name in _WINDOWS:
            if isinstance(size := getattr(config, name, None), int) and size > 0:
                return size
        size = self._tokenizer.model_max_length
        return int(size) if size < _MOST else None

    # --- the answer, in the worker's thread -------------------------------------------------------

    def _answer(self, ids: list[int], most: int, sampling: Mapping[str, Any], stop: Event) -> Reply:
        model, decoder = self._model
        torch, transformers = map(importlib.import_module, ("torch", "transformers"))
        is_stopped: list[Callable[..., bool]] = [lambda *_, **__: stop.is_set()]
        prompt = torch.tensor([ids], device=model.device)
        written = model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=most,
            stopping_criteria=transformers.StoppingCriteriaList(is_stopped),
            **({"tokenizer": decoder} if "stop_strings" in sampling else {}),
            **sampling,
        )[0]
        new = written[1 if self._two_parts else len(ids) :].tolist()
        text = decoder.decode(new, skip_special_tokens=True)
        return Reply(
            message=Message(role="assistant", content=text),
            usage=Usage(prompt_tokens=len(ids), completion_tokens=len(new)),
            finish=_finish(new, most, model.generation_config.eos_token_id),
            model=self.name,
        )

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        kind = "AutoModelForSeq2SeqLM" if self._two_parts else "AutoModelForCausalLM"
        model = self._loaded(kind).to(self._device).eval()
        with self._reading:
            return model, copy.deepcopy(self._tokenizer)

    def _loaded(self, kind: str) -> Any:  # noqa: ANN401 - of a package that may be missing
        """Load one object of the model, such as its tokenizer.

        Raises:
            ModelRefused: there is no such model, or the package or torch is missing.
        """
        try:
            return getattr(importlib.import_module("transformers"), kind).from_pretrained(
                self._folder
            )
        except ImportError as error:
            raise ModelRefused(
                f"{self.name} needs a package that is missing ({error}): "
                f"{how_to_install('transformers')}, and torch as it fits your machine",
                model=self.name,
            ) from error
        except (OSError, ValueError, KeyError) as error:
            text = f"{self.name} cannot be loaded: {_first_line(error)}"
            raise ModelRefused(text, model=self.name) from error


def _chat(context: ActiveContext) -> list[dict[str, Any]]:
    """Return the prompt for a chat template. Contents are texts, and arguments are objects."""
    prompt = [_plain(plainly(message)) for message in prompt_of(context)]
    if context.system is None:
        return prompt
    return [{"role": "system", "content": context.system_text}, *prompt]


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    content, calls = message.get("content"), message.get("tool_calls")
    plain = {**message, "content": _text(content)}
    if calls:
        plain["tool_calls"] = [_with_object(call) for call in calls]
    return plain


def _text(content: object) -> str:
    if not isinstance(content, list):
        return str(content or "")
    return "\n".join(str(part.get("text", NO_IMAGE)) for part in content)


def _with_object(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}


def _sampling(ask: Ask) -> dict[str, Any]:
    wanted = dict(ask.options)
    if ask.stop:
        wanted["stop_strings"] = list(ask.stop)
    if ask.temperature:
        wanted |= {"do_sample": True, "temperature": ask.temperature}
    elif ask.temperature == 0:
        wanted["do_sample"] = False
    return wanted


def _finish(new: list[int], most: int, ends: int | list[int] | None) -> Finish:
    known = ends if isinstance(ends, list) else [ends]
    if new and new[-1] in known:
        return "stop"
    return "length" if len(new) >= most else "unknown"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
