"""The resident half of the plugin on a node: fast path, device plugin, run directory, metrics. This package
arrives with its own release; today only its command line exists.
"""
