"""Faults on purpose: engine.py (the real engine), mock.py (scripted mechanisms), recorded.py (series from files)."""
