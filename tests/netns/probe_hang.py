"""A benchmark of which one rank hangs, deaf to SIGTERM: what a dead GPU or a lost completion looks like."""

from __future__ import annotations

import os
import signal
import time

from nccltest import mpi_allreduce

if __name__ == "__main__":
    if "1" in (os.environ.get("OMPI_COMM_WORLD_RANK"), os.environ.get("SLURM_PROCID")):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    mpi_allreduce.main()
