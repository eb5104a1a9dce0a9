"""Sessions that come from files, and go into files: imported, exported, migrated by the folder."""
