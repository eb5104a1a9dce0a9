"""Events for Ariadne, by the kit's own import path."""

from compact.telemetry.ariadne import AriadneExporter as AriadneExporter
