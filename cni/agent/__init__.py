"""The resident half of the plugin on a node: ``roceway-agent``.

The fast path is ``resident`` (the main process), ``server``, ``crew`` and ``worker``; ``client`` is the plugin's side
of it, ``protocol`` and ``view`` what passes between them. All else are parts (``parts``) of the background process.
"""
