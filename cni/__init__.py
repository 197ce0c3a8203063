"""A pod's attachment to the parameter plane: the ``roceway-cni`` plugin.

Pure modules (``spec``, ``netconf``, ``ipam``, ``plan``, ``verify``) take values and return values; the doors
(``store``, ``apply``, ``gather``) do I/O and decide nothing; ``commands`` puts them together, one function a verb.
"""
