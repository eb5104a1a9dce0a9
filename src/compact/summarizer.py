"""Who writes summaries, by the kit's own import path.

from compact.summarizer import Summarizer, ExtractiveSummarizer
"""

from compact.compression.abstraction.abstractive import ModelSummarizer as ModelSummarizer
from compact.compression.extraction.extractive import ExtractiveSummarizer as ExtractiveSummarizer
from compact.core.protocols import Summarizer as Summarizer
