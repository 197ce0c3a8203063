"""Starting a group's ranks, and ending them whatever happens: mpirun, srun, torchrun, Kubernetes.

``job`` and the modules named after a launcher build words, files and manifests from values and are pure; ``process``
and ``remote`` are the doors.
"""
