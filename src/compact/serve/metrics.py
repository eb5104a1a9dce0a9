"""What the proxy counts, as Prometheus reads it. No label holds a text of a client."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping

_HELP: Mapping[str, str] = {
    "requests_total": "Requests by API and by what was done with them.",
    "bodies_total": "Bodies of conversations sent on: identical to the client's, or rewritten.",
    "prompt_tokens_total": "Prompt tokens of conversations sent on, as compact counts them.",
    "sessions_total": "Conversations that were begun.",
    "compressions_total": "Compressions of sessions.",
    "overflows_total": "Refusals of the server as too large, by whether a smaller prompt followed.",
    "answers_total": "Answers to conversations: recorded in the session, or why not.",
    "failures_total": "Errors of compact's own behind which a request passed on, by type.",
}
"""Counter -> what it counts."""
_BUCKETS = (0.001, 0.003, 0.005, 0.015, 0.05, 0.15, 0.5, 1.5, 5.0)
"""Upper ends of the buckets of added latency, in seconds."""
_PREFIX = "compact_proxy_"


class Metrics:
    """Counters since the start."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._added = [0] * (len(_BUCKETS) + 1)
        self._added_sum = 0.0
        self.streams = 0
        """Answers that are on their way to clients now."""

    def add(self, name: str, by: int = 1, **labels: str) -> None:
        """Count something."""
        written = ",".join(f'{key}="{value}"' for key, value in labels.items())
        self._counts[name, f"{{{written}}}" if written else ""] += by

    def count(self, name: str, **labels: str) -> int:
        """How often it was counted, over all labels that are not given."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        rows = self._counts.items()
        return sum(n for (key, by), n in rows if key == name and all(w in by for w in wanted))

    def took(self, seconds: float) -> None:
        """Note how long a request was held up by compact's own work."""
        self._added[bisect_left(_BUCKETS, seconds)] += 1
        self._added_sum += seconds

    def page(self) -> str:
        """All counters in Prometheus' text format."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        for name, text in _HELP.items():
            yield f"# HELP {_PREFIX}{name} {text}"
            yield f"# TYPE {_PREFIX}{name} counter"
            for (key, labels), count in sorted(self._counts.items()):
                if key == name:
                    yield f"{_PREFIX}{name}{labels} {count}"
        yield f"# HELP {_PREFIX}streams Answers on their way to clients now."
        yield f"# TYPE {_PREFIX}streams gauge"
        yield f"{_PREFIX}streams {self.streams}"
        yield f"# HELP {_PREFIX}added_seconds Time that compact's own work added to a request."
        yield f"# TYPE {_PREFIX}added_seconds histogram"
        total = 0
        for end, count in zip((*_BUCKETS, "+Inf"), self._added, strict=True):
            total += count
            yield f'{_PREFIX}added_seconds_bucket{{le="{end}"}} {total}'
        yield f"{_PREFIX}added_seconds_sum {self._added_sum:.6f}"
        yield f"{_PREFIX}added_seconds_count {total}"
