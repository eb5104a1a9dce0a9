"""Speed, measured: `python -m bench`. Quality lives in `evals/`."""
