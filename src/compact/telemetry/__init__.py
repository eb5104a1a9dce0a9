"""Telemetry: the event bus, and the exporters that send events to other programs."""
