"""Adapters for the providers' clients, tokenizers, and embedders.

An adapter has the name of its API. Shared: `vendor_server` sends requests, `clients` finds packages
and API keys, `dialect` learns which fields a server refuses, `failures` maps errors,
`fallback_model` retries and asks other models, `answers` reads answers without a client.
"""
