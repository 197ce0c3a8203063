"""The linter: rules over what hosts and switches say, against the intent and against each other.

``rule`` (what a rule is), ``subjects`` (what rules look at), ``world`` (how those are joined), ``rules/`` (the rules),
``engine`` (evaluation), ``report`` (findings grouped by cause), ``suppress`` (accepted findings); then the outputs
``table``, ``asjson``, ``html`` and ``pages``. All pure; ``gather`` is the door through which files come in.
"""
