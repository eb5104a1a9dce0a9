"""Speed and structure, measured: `python -m bench`. Quality lives in `evals/`."""
