"""Fit any conversation into any model's window and keep every word reachable."""
