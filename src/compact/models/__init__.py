"""Models: what is known of each, how they are asked, and how tokens are counted.

`profiles` has the limits of each model, `providers` an adapter for each provider's client.
"""
