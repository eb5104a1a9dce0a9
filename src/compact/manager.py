"""The middleware, by the kit's own import path.

from compact.manager import CompactManager
"""

from compact.managers.compact_manager import CompactManager as CompactManager
