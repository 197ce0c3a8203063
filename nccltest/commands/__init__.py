"""The commands of ``roceway-probe``, one module each: ``arguments(parser)`` and ``run(options)``."""
