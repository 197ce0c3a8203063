"""The only door to the kernel: one module is one kernel interface.

``host`` knows no policy. It reads the world into values and does single, named changes; what should be
changed, in which order, and how it is undone is decided above it.
"""
