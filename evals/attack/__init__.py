"""Attacks through the public door, made without sight of what they attack.

`python -m evals attack [PART …] [--seed N] [--size small|full]`. Each part draws its cases from the
seed, counts what was tried and what is bad, and names the worst. Start at `running`.
"""
