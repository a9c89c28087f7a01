"""Whether a program's memory grows: least squares over samples of (seconds, KiB, ...). For tools/soak*."""


def settled_after(seconds):
    """Caches and arenas fill up first."""
    return 120 if seconds >= 180 else seconds // 5


def slope(samples, column=1):
    """MB a minute."""
    n = len(samples)
    time_mean = sum(sample[0] for sample in samples) / n
    mean = sum(sample[column] for sample in samples) / n
    above = sum((sample[0] - time_mean) * (sample[column] - mean) for sample in samples)
    below = sum((sample[0] - time_mean) ** 2 for sample in samples)
    return above / below * 1024 / 1e6 * 60


def describe(name, samples, window, column=1):
    mb = [sample[column] * 1024 / 1e6 for sample in samples]
    each = max(1, len(mb) // 10)
    return (f"{name:8} {slope(window, column):+8.3f} MB/min from {window[0][0]:.0f} to {window[-1][0]:.0f} s, "
            f"peak {max(mb):.1f} MB; every {each} samples: {' '.join(f'{value:.1f}' for value in mb[::each])}")
