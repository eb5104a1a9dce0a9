"""`compactctl validate-config`: the effective settings, and where each came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from compact.apps.cli.options import taking


@dataclass(frozen=True, kw_only=True)
class ValidateOptions:
    """What `validate-config` takes."""

    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Settings, as YAML or JSON.")
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead, for machines.")] = False


@taking(ValidateOptions)
def validate_config(options: ValidateOptions) -> None:
    """Check the settings, and show where each came from.

    Defaults, then FILE, then .env in this folder, then COMPACT_* variables: the later counts.
    Exit code 2 and the setting's name where one is wrong.

    Examples:
      compactctl validate-config
      compactctl validate-config compact.yaml
      COMPACT_TRIGGER_PCT=0.8 compactctl validate-config compact.yaml --json
    """
    import os

    from compact.apps.cli import drawing, env_file, output, work
    from compact.apps.cli.options import SettingsOptions
    from compact.wiring import token_counter_of

    settings = work.settings_of(SettingsOptions(config=options.file))
    token_counter_of(settings, "chat_completions")
    window = settings.window()
    values = settings.model_dump(mode="json")
    origins = {name: env_file.named(settings.origin(name), os.environ) for name in settings.names()}
    if options.json:
        listed = {name: {"value": values[name], "from": origins[name]} for name in origins}
        output.print_json({"settings": listed, "usable": window and window.usable})
        return
    out = drawing.console()
    rows = drawing.table("setting", "value", "from")
    for name, origin in origins.items():
        style = "bright_black" if origin == "default" else ""
        rows.add_row(name, drawing.Text(_shown(values[name])), drawing.Text(origin), style=style)
    out.print(rows)
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
