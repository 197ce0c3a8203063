"""The commands of ``roceway-tune``, one module each: ``arguments(parser)`` and ``run(options)``."""
