"""Host QoS of the rails: PFC, ETS, ECN, DSCP and MTU as plan, apply, verify and rollback, and the lint of
host against switch. This package arrives with its own release; today only its command line exists.
"""
