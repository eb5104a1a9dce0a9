"""Telemetry: the bus that carries events, and the exporters that send them."""
