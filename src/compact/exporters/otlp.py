"""Events as spans of OpenTelemetry (extra `otlp`), beside the other exporters."""

from compact.telemetry.otlp import OtlpExporter as OtlpExporter
