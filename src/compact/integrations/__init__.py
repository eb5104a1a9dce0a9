"""Other people's frameworks, one file each. Each needs the extra that brings its framework."""
