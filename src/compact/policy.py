"""The policy, the parts of a history and the budget, by the kit's own import path.

from compact.policy import CompactPolicy, partition
"""

from compact.core.budget import ContextBudget as ContextBudget
from compact.core.budget import ContextWindow as ContextWindow
from compact.core.partition import Partition as Partition
from compact.core.partition import partition as partition
from compact.core.policy import CompactPolicy as CompactPolicy
from compact.core.policy import Strategy as Strategy
