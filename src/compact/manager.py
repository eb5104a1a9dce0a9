"""The middleware, under the kit's own import path.

from compact.manager import CompactManager
"""

from compact.session.compact_manager import CompactManager as CompactManager
