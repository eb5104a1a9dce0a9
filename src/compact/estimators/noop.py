"""Counts for tests, by the kit's own import path."""

from compact.models.providers.tokenizers import NoopEstimator as NoopEstimator
