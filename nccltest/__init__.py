"""The probe: runs all-reduce rounds, judges them against history and names the slow component. The scheduler,
the parser and the judge arrive with their own release; the MPI all-reduce that measures rails without a GPU is here.
"""
