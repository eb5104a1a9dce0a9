"""The policy, the parts of a history and the budget, under the kit's own import path.

from compact.policy import CompactPolicy, partition
"""

from compact.engine.groups import Partition as Partition
from compact.engine.groups import partition as partition
from compact.messages.budget import ContextBudget as ContextBudget
from compact.messages.budget import ContextWindow as ContextWindow
from compact.messages.policy import CompactPolicy as CompactPolicy
from compact.messages.policy import Strategy as Strategy
