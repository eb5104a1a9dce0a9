"""The page of `compactctl replay`: a line for each policy, in one file without a script."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import accumulate

from compact.cli.pages.page import BEGINS
from compact.cli.replaying import Played

WIDTH, HEIGHT, LEFT, BOTTOM = 900, 300, 90, 24
"""The sizes of a plot and of its margins, in pixels."""
COLOURS = ("#666666", "#c2410c", "#1d6fd1", "#15803d", "#9333ea", "#a16207")
DASHES = ("none", "8 3", "2 3", "10 3 2 3", "4 2", "1 2")
"""Lines also differ by dashes, for people who cannot tell the colours apart."""
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1b1b1b;background:#fff}svg{width:100%;height:auto}text{font-size:12px;fill:#444}"
)


def replay_html(source: str, played: Sequence[Played]) -> str:
    """Build the page. It plots the tokens of each prompt, and the sum of uncached tokens."""
    names = [each.policy.name for each in played]
    sums = [list(accumulate(each.uncached)) for each in played]
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    title = html.escape(f"Replay of {source}")
    return (
        f'{BEGINS}\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f"{_plot('Tokens of each prompt', names, [each.tokens for each in played])}\n"
        f"{_plot('Uncached tokens, summed', names, sums)}\n</body>\n</html>\n"
    )


def _plot(title: str, names: Sequence[str], series: Sequence[Sequence[int]]) -> str:
    most = max((max(row, default=0) for row in series), default=0) or 1
    calls = max(map(len, series), default=1)
    lines, keys = list[str](), list[str]()
    for number, (name, row) in enumerate(zip(names, series, strict=True)):
        look = (
            f'stroke="{COLOURS[number % len(COLOURS)]}" '
            f'stroke-dasharray="{DASHES[number % len(DASHES)]}" stroke-width="2" fill="none"'
        )
        points = " ".join(
            f"{LEFT + (WIDTH - LEFT) * at / max(1, calls - 1):.1f},{HEIGHT * (1 - size / most):.1f}"
            for at, size in enumerate(row)
        )
        lines.append(f'<polyline {look} points="{points}"/>')
        y = HEIGHT + BOTTOM + 18 * (number + 1)
        label = html.escape(f"{name}: {row[-1] if row else 0:,} at the last call")
        keys.append(
            f'<path {look} d="M{LEFT} {y - 4}h40"/><text x="{LEFT + 50}" y="{y}">{label}</text>'
        )
    axis = "".join(
        f'<text x="{LEFT - 8}" y="{HEIGHT * (1 - part) + 4:.0f}" text-anchor="end">'
        f"{most * part:,.0f}</text>"
        for part in (0, 0.5, 1)
    )
    frame = f'<path d="M{LEFT} 0V{HEIGHT}H{WIDTH}" stroke="#888" fill="none"/>'
    below = f'<text x="{WIDTH}" y="{HEIGHT + 18}" text-anchor="end">call {calls:,}</text>'
    height = HEIGHT + BOTTOM + 18 * (len(names) + 1)
    name = html.escape(title)
    return (
        f'<h2>{name}</h2>\n<svg viewBox="-4 -12 {WIDTH + 12} {height}" role="img" '
        f'aria-label="{name}">{frame}{axis}{below}{"".join(lines)}{"".join(keys)}</svg>'
    )
