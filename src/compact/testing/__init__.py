"""Public fakes, and conformance suites for implementations of compact's protocols.

`check_chat_model`, `check_embedder`, `check_token_estimator`, `check_summarizer`, `check_exporter`,
`check_storage_adapter`, `check_blob_store` and `check_session_store` test an implementation. They
raise an AssertionError that names the broken promise. `ScriptedSummarizer`, `ScriptedModel` and
`HashEmbedder` are fakes of models. No other package imports this one.
"""

from compact.testing.embedders import HashEmbedder as HashEmbedder
from compact.testing.embedders import check_embedder as check_embedder
from compact.testing.fakes import ScriptedModel as ScriptedModel
from compact.testing.fakes import ScriptedSummarizer as ScriptedSummarizer
from compact.testing.models import check_chat_model as check_chat_model
from compact.testing.ports import SAMPLES as SAMPLES
from compact.testing.ports import check_blob_store as check_blob_store
from compact.testing.ports import check_exporter as check_exporter
from compact.testing.ports import check_storage_adapter as check_storage_adapter
from compact.testing.ports import check_summarizer as check_summarizer
from compact.testing.ports import check_token_estimator as check_token_estimator
from compact.testing.stores import check_session_store as check_session_store
