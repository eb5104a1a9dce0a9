"""Where events go, by the kit's own import paths, `console` and `ariadne`, and by `otlp`."""
