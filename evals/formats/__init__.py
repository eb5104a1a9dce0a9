"""The benchmarks' files, behind the product's own table type.

A benchmark's format is one file here and one line in `BENCHMARKS`. `read` and `detect` try these
and then what the product reads: nothing in the product knows of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from compact.transcripts import reading, table
from compact.transcripts.documents import load
from compact.transcripts.table import Format
from evals.formats import longmemeval, mini_swe_agent, no_chats, swe_agent, tau

BENCHMARKS: tuple[Format, ...] = (
    Format("swe_agent", "SWE-agent (.traj)", swe_agent.recognizes, swe_agent.read),
    Format("mini_swe_agent", "mini-SWE-agent", mini_swe_agent.recognizes, mini_swe_agent.read),
    Format("tau_bench", "tau-bench records", tau.recognizes_tau, tau.read_tau),
    Format("tau2_bench", "tau2-bench simulations", tau.recognizes_tau2, tau.read_tau2),
    Format("longmemeval", "LongMemEval records", longmemeval.recognizes, longmemeval.read),
    Format("qmsum", "QMSum meetings", no_chats.is_meeting, no_chats.refuse_meeting),
    Format("locomo", "LoCoMo dialogues", no_chats.is_dialogue, no_chats.refuse_dialogue),
)
FORMATS = (*BENCHMARKS, *table.FORMATS)
"""The benchmarks' first: some of them would pass for chat files."""

read = partial(reading.read, formats=FORMATS)


def detect(data: Path | bytes) -> str:
    """The name of the format that the content shows."""
    return table.recognized(load(data), FORMATS).name
