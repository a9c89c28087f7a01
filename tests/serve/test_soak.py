"""The mixed load of make soak for ten seconds: cancels at random moments over real HTTP, more than the cache holds."""
import re
import subprocess


def test_ten_seconds_of_mixed_load(binary, source_dir):
    done = subprocess.run([source_dir / "tools/soak_serve.py", binary, "10"], capture_output=True, text=True,
                          timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(re.findall(r"'(\w+)': (\d+)", done.stdout))
    for act in ("whole", "stream", "leave", "bad", "abort"):
        assert int(counts[act]) > 0, done.stdout  # otherwise it has shown nothing
