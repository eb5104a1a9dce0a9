"""`compactctl validate-config`: the effective settings, and where each came from."""

from __future__ import annotations

from typing import Annotated

from compact.apps.cli import output, render
from compact.apps.cli.options import JsonOptions, SettingsOptions, argument, command
from compact.apps.cli.settings import origin_of, settings_of
from compact.apps.cli.words import visible
from compact.wiring import token_counter_of


@command
def validate_config(
    options: JsonOptions,
    *,
    file: Annotated[str | None, argument("[FILE]", "Settings, as YAML or JSON.")] = None,
) -> None:
    """Check the settings, and show where each came from.

    The order is: defaults, FILE, .env in this folder, COMPACT_* variables. Later ones override. A
    wrong setting is named, with exit code 2.

    Examples:
      compactctl validate-config
      compactctl validate-config compact.yaml
      COMPACT_TRIGGER_RATIO=0.8 compactctl validate-config compact.yaml --json
    """
    settings = settings_of(SettingsOptions(config=file))
    token_counter_of(settings, "chat_completions")
    window = settings.window()
    values = settings.model_dump(mode="json")
    origins = {name: origin_of(settings, name) for name in settings.names()}
    if options.json:
        listed = {name: {"value": values[name], "from": origins[name]} for name in origins}
        output.print_json({"settings": listed, "usable": window and window.usable})
        return
    out = render.console()
    rows = []
    for name, origin in origins.items():
        style = "bright_black" if origin == "default" else ""
        cells = (name, _shown(values[name]), origin)
        rows.append([render.Text(visible(cell), style=style) for cell in cells])
    render.show_table(out, ("setting", "value", "from"), rows)
    if window is not None:
        out.print(f"A prompt may use {window.usable:,} tokens of a window of {window.size:,}.")
    out.print("All settings are valid.")


def _shown(value: object) -> str:
    """A value as it would be written in YAML."""
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
