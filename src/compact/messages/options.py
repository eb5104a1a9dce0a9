"""Shows the options of a function in `help()`.

A function that takes `**options: Unpack[Options]` gets the options as parameters of its signature,
and their descriptions in its docstring. This module imports only the standard library, because the
package's entry uses it before anything else is loaded.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class _NotConstant:
    """Shown as `…` for a default that is not constant. The option's docstring describes it."""

    def __repr__(self) -> str:
        return "…"


NOT_CONSTANT = _NotConstant()


def taking(options: type) -> Callable[[F], F]:
    """Decorate a function that takes `**options: Unpack[Options]`; see `show_options`."""

    def shown(function: F) -> F:
        show_options(function, options)
        return function

    return shown


def show_options(function: Callable[..., Any], options: type) -> None:
    """Give a function a signature with all options, and a docstring that describes them."""
    shown: Any = function
    shown.__signature__ = _shown(function, options)
    shown.__doc__ = f"{inspect.getdoc(function) or ''}\n\n{_described(options)}"


def _shown(function: Callable[..., Any], options: type) -> inspect.Signature:
    """Return the signature with the options as parameters. Defaults come from `DEFAULTS` in the
    module of the options. Otherwise the default is None if the type allows it.
    """
    signature = inspect.signature(function)
    own = list(signature.parameters.values())[:-1]
    known = vars(sys.modules[options.__module__]).get("DEFAULTS", {})
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=known.get(name, None if kind.endswith("| None") else NOT_CONSTANT),
            annotation=kind,
        )
        for name, annotation in options.__annotations__.items()
        if (kind := str(getattr(annotation, "__forward_arg__", annotation)))
    ]
    return signature.replace(parameters=[*own, *added])


def _described(options: type) -> str:
    lines = ["Options:"]
    docstrings = _docstrings(options)
    for name, annotation in options.__annotations__.items():
        kind = getattr(annotation, "__forward_arg__", annotation)
        words = " ".join(docstrings.get(name, "").split())
        text = f"{name} ({kind}): {words}"
        lines.append(textwrap.fill(text, 96, initial_indent="    ", subsequent_indent=" " * 8))
    return "\n".join(lines)


def _docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings of a class's fields, or nothing if the source is not installed."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, SyntaxError):
        return {}
    fields = body.body if isinstance(body, ast.ClassDef) else []
    docstrings: dict[str, str] = {}
    for field, after in itertools.pairwise(fields):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docstrings[name] = text
    return docstrings
