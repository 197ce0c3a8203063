"""The verbs of the CNI protocol, one module each: gather, plan, apply, verify.

Imported by verb, since a DEL must not pay for what only an ADD needs.
"""
