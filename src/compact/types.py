"""Values, by the kit's own import path.

from compact.types import Message, CompactPolicy, CompactConfig
"""

from compact.config import CompactConfig as CompactConfig
from compact.core.conversation import Conversation as Conversation
from compact.core.messages import Message as Message
from compact.core.messages import MessageMetadata as MessageMetadata
from compact.core.policy import CompactPolicy as CompactPolicy
