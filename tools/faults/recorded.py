"""Faults of the machine as recorded series: a load test and `nibble watch --jsonl` beside it, on simulated GPUs, read from
files afterwards."""
from . import mock


def trials(which):
    made = []
    mock.add_all(made, which, ("healthy", "power_cap", "heat", "link"), mock.recorded)
    return made
