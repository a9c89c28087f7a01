"""The official openai client against `nibble serve`, where it is installed (make oracle runs the same)."""
import subprocess

from serving import python_with


def test_the_official_client(binary, source_dir):
    python = python_with(source_dir, "openai")
    done = subprocess.run([python, "-B", source_dir / "tools/oracle/openai_serve.py", binary], capture_output=True,
                          text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" ok\n") == 10
