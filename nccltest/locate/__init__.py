"""Where the slowness is: hypotheses about components, fitted to the evidence of groups of nodes.

:func:`nccltest.locate.verdict.locate` is the entrance. ``cabling`` says which NIC is on which leaf, ``evidence`` makes
arrays of measurements, ``levels`` finds what is normal, ``hypotheses`` lists what could be at fault and which
measurements it would touch, ``groups`` guesses leaves where no topology is given, ``fit`` chooses the faults and
``verdict`` says how sure that is. All of it is pure.
"""
