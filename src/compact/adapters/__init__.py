"""Where archives are kept, by the kit's own import paths: `fs` and `s3`."""
