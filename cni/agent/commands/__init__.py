"""The commands of ``roceway-agent``, one module each."""
