"""The linter: rules over what hosts and switches say, against the intent and against each other.

``rule`` (what a rule is), ``world`` (what rules look at), ``rules/`` (the rules), ``engine`` (evaluation), ``report``
(findings grouped by cause), ``suppress`` (accepted findings); then the outputs ``table``, ``asjson``, ``sarif`` and
``html``. All pure; ``gather`` is the door through which files and live hosts come in.
"""
