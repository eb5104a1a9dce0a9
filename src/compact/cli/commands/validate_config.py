"""`compactctl validate-config`: shows the effective settings and their sources."""

from __future__ import annotations

from typing import Annotated

from compact import wiring
from compact.cli.options import JsonOptions, SettingsOptions, argument, command
from compact.cli.render import Report, Styled, Table
from compact.cli.settings import settings_of


@command
def validate_config(
    options: JsonOptions,
    *,
    file: Annotated[str | None, argument("[FILE]", "Settings, as YAML or JSON.")] = None,
) -> Report:
    """Check the settings, and show where each came from.

    The order is: defaults, FILE, .env in this folder, COMPACT_* variables. Later ones override. A
    wrong setting is named, with exit code 2.

    Examples:
      compactctl validate-config
      compactctl validate-config compact.yaml
      COMPACT_TRIGGER_RATIO=0.8 compactctl validate-config compact.yaml --json
    """
    settings = settings_of(SettingsOptions(config=file))
    wiring.token_counter_of(settings, "chat_completions")  # refuses an unknown tokenizer
    window = settings.window()
    values = settings.model_dump(mode="json")
    origins = {name: settings.origin(name) for name in settings.names()}
    listed = {name: {"value": values[name], "from": origins[name]} for name in origins}
    yield {"settings": listed, "usable": window and window.usable}
    rows = []
    for name, origin in origins.items():
        style = "bright_black" if origin == "default" else ""
        rows.append([Styled(cell, style) for cell in (name, _shown(values[name]), origin)])
    yield Table(("setting", "value", "from"), rows)
    if window is not None:
        yield f"A prompt may use {window.usable:,} tokens of a window of {window.size:,}."
    yield "All settings are valid."


def _shown(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.4g}"
        case list():
            return f"[{', '.join(map(str, value))}]"
    return str(value)
