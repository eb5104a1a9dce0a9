"""Reports: the bus that carries events, and the exporters that show them."""
