"""Integrations with other frameworks, one file each. Each needs the extra with its framework."""
