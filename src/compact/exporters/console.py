"""Events as JSON lines, by the kit's own import path."""

from compact.telemetry.console import ConsoleExporter as ConsoleExporter
