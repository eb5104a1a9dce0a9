"""The summarizers, under the kit's own import path.

from compact.summarizer import Summarizer, ExtractiveSummarizer
"""

from compact.engine.chronology.extractive import ExtractiveSummarizer as ExtractiveSummarizer
from compact.engine.stories.abstractive import ModelSummarizer as ModelSummarizer
from compact.messages.protocols import Summarizer as Summarizer
