"""One fault at one strength: what is broken, what should be named, how it is asked."""
import dataclasses
import json
import subprocess
from collections.abc import Callable

HEALTHY = "healthy"
LONGEST_S = 300


@dataclasses.dataclass
class Trial:
    fault: str
    strength: str
    seed: int
    expected: str
    diagnose: Callable  # of the program's path: the nibble.diagnosis/1 document
    kind: str = ""


def ask(words, stdin=None):
    """The JSON that a command prints."""
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    if done.returncode != 0 or not done.stdout:
        raise RuntimeError(f"{' '.join(map(str, words))}: status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)
