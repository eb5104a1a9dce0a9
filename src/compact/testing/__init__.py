"""Public fakes and conformance suites, for the ports that exist: what we test our parts with.

`check_chat_model`, `check_token_estimator`, `check_summarizer`, `check_exporter` and
`check_session_store` raise AssertionError with the broken promise; run them against an
implementation of yours.
`ScriptedSummarizer` and `ScriptedModel` stand in for models, `ScriptedServer` for the servers of
several vendors, with their faults by name. Nothing in the product imports this
package.
"""

from compact.testing.answers import FAULTS as FAULTS
from compact.testing.answers import Answer as Answer
from compact.testing.answers import BreaksOff as BreaksOff
from compact.testing.answers import Busy as Busy
from compact.testing.answers import Call as Call
from compact.testing.answers import Calls as Calls
from compact.testing.answers import CutOff as CutOff
from compact.testing.answers import Down as Down
from compact.testing.answers import Echoes as Echoes
from compact.testing.answers import EchoesInstructions as EchoesInstructions
from compact.testing.answers import Failed as Failed
from compact.testing.answers import FailsMidway as FailsMidway
from compact.testing.answers import Filtered as Filtered
from compact.testing.answers import HalfJson as HalfJson
from compact.testing.answers import Hangs as Hangs
from compact.testing.answers import HangsUp as HangsUp
from compact.testing.answers import Injects as Injects
from compact.testing.answers import InternalError as InternalError
from compact.testing.answers import Leaks as Leaks
from compact.testing.answers import NoSuchModel as NoSuchModel
from compact.testing.answers import NotJson as NotJson
from compact.testing.answers import OtherLanguage as OtherLanguage
from compact.testing.answers import Overflow as Overflow
from compact.testing.answers import Overloaded as Overloaded
from compact.testing.answers import Rambles as Rambles
from compact.testing.answers import Received as Received
from compact.testing.answers import Refuses as Refuses
from compact.testing.answers import Said as Said
from compact.testing.answers import Script as Script
from compact.testing.answers import Silent as Silent
from compact.testing.answers import WrongKey as WrongKey
from compact.testing.answers import faulty as faulty
from compact.testing.fakes import ScriptedModel as ScriptedModel
from compact.testing.fakes import ScriptedSummarizer as ScriptedSummarizer
from compact.testing.models import check_chat_model as check_chat_model
from compact.testing.overflows import VENDORS as VENDORS
from compact.testing.ports import SAMPLES as SAMPLES
from compact.testing.ports import check_exporter as check_exporter
from compact.testing.ports import check_summarizer as check_summarizer
from compact.testing.ports import check_token_estimator as check_token_estimator
from compact.testing.server import ScriptedServer as ScriptedServer
from compact.testing.stores import check_session_store as check_session_store
