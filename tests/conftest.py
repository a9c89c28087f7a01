"""What the end-to-end tests share: the program under test, and a terminal to run it in.

ctest sets NIBBLE_BINARY, NIBBLE_BUILD_DIR and NIBBLE_SOURCE_DIR; without them the tests fail.
"""
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import fcntl
import termios
import time

import pytest


def _path(variable):
    value = os.environ.get(variable)
    assert value, f"{variable} is not set; run the tests through ctest (make test)"
    return pathlib.Path(value)


@pytest.fixture(scope="session")
def binary():
    """The program that was built."""
    path = _path("NIBBLE_BINARY")
    assert os.access(path, os.X_OK), f"{path} cannot be run"
    return path


@pytest.fixture(scope="session")
def build_dir():
    return _path("NIBBLE_BUILD_DIR")


@pytest.fixture(scope="session")
def source_dir():
    return _path("NIBBLE_SOURCE_DIR")


def wait_until(condition, what):
    """A minute at most, which only a failure takes: for the state itself, not for a time."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.005)


def when_handled(process, sign):
    """Waits until the process has a handler for the signal: before, it dies of it. Returns the signal."""
    status = pathlib.Path(f"/proc/{process.pid}/status")

    def handled():
        assert process.poll() is None, f"ended with {process.returncode} before it could have a signal"
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
        return int(caught[1], 16) >> (sign - 1) & 1

    wait_until(handled, f"a handler of {sign.name}")
    return sign


def environment(**changes):
    """Ours without what would change the output, and with the changes."""
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "TERM")}
    return {**kept, **changes}


@pytest.fixture(scope="session")
def nibble(binary):
    """Runs nibble with its output in pipes: nibble("doctor", "--json").stdout."""

    def run(*words, **options):
        options.setdefault("env", environment())
        return subprocess.run([binary, *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, **options)

    return run


@pytest.fixture(scope="session")
def nibble_in_terminal(binary):
    """Runs nibble on a pseudo-terminal of `width` columns; returns (exit status, text shown)."""

    def run(*words, width=80, **changes):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        env = environment(TERM="xterm-256color", **changes)
        process = subprocess.Popen([binary, *words], stdin=theirs, stdout=theirs, stderr=theirs,
                                   env=env, close_fds=True)
        os.close(theirs)
        shown = b""
        while True:
            ready, _, _ = select.select([ours], [], [], 120)
            assert ready, "nothing was printed for two minutes"
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal's other end is closed
                break
            if not part:
                break
            shown += part
        os.close(ours)
        return process.wait(timeout=10), shown.decode().replace("\r\n", "\n")

    return run
