"""What the operator writes: the model of ``fabric.yaml`` and the files shipped with it.

``conf`` touches no machine: it takes text, gives values, and lists every mistake with its place.
"""
