"""The estimator for tests, under the import path of the compaction kit (MIGRATION.md)."""

from compact.models.providers.tokenizers import NoopEstimator as NoopEstimator
