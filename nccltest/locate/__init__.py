"""Where the slowness is: hypotheses about components, fitted to the evidence of groups of nodes.

:func:`nccltest.locate.verdict.locate` is the entrance. ``cabling`` says which NIC is on which leaf, ``evidence`` makes
arrays of measurements, ``levels`` finds what is normal, ``hypotheses`` lists what could be at fault and which
measurements it would touch, ``groups`` guesses leaves where no topology is given and ``pathguess`` kinds of path,
``floors`` tells what each kind of path reaches in health, ``density`` how likely a result is, ``fit`` chooses the
faults, ``case`` holds all that together, ``verdict`` says how sure it is, ``story`` and ``pathstory`` say it in words.
All of it is pure.
"""
