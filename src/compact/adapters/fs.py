"""Archives in a folder, by the kit's own import path."""

from compact.store.archives.files import FileStorage as FileStorage
