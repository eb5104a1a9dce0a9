"""Value types, under the kit's own import path.

from compact.types import Message, CompactPolicy, CompactConfig
"""

from compact.config import CompactConfig as CompactConfig
from compact.messages.messages import Message as Message
from compact.messages.messages import MessageMetadata as MessageMetadata
from compact.messages.policy import CompactPolicy as CompactPolicy
from compact.text.conversation import Conversation as Conversation
