"""Exact counts of OpenAI's vocabularies, by the kit's own import path."""

from compact.models.providers.tokenizers import TiktokenEstimator as TiktokenEstimator
