"""Events as JSON lines, by the kit's own import path."""

from compact.telemetry.bus import ConsoleExporter as ConsoleExporter
