#!/usr/bin/env python3
"""Short tables of what tools/gpu_bench.sh measured: time over floor by tokens, the links, the roofs.

    tools/gpu_tables.py FILE...                 files of nibble.bench/1
    tools/gpu_tables.py --markdown link.json    as docs/measured.md takes them, with the command
"""
import json
import pathlib
import sys


def plain(rows):
    """Rows of texts as columns; the first column to the left, the others to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) if at == 0 else cell.rjust(width)
                               for at, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" + "|--:" * (len(rows[0]) - 1) + "|", *lines[1:]])


def x_floor(row):
    """Time over floor as a text: "1.08"; "wrong" for a row that was not timed."""
    if row.get("error"):
        return "wrong"
    share = row.get("roof_share")
    return f"{1 / share:.2f}" if share else "-"


def rows_table(documents):
    """A line for each file, part and kernel, a column for each number of tokens."""
    lines = {}
    tokens = set()
    for name, document in documents:
        for row in document["rows"]:
            key = (name, row.get("part") or row["op"], row["kernel"])
            lines.setdefault(key, {})[row["tokens"]] = x_floor(row)
            tokens.add(row["tokens"])
    order = sorted(tokens)
    return [["x floor, at tokens", *map(str, order)]] + [
        [" ".join(key), *(cells.get(count, "-") for count in order)] for key, cells in lines.items()]


def curves(documents):
    return [curve for _, document in documents for curve in document.get("link", {}).get("curves", [])]


def title(curve):
    if curve["op"] != "copy":
        return f"{curve['op']} of {len(curve['devices'])}"
    return f"copy {(' <-> ' if curve['both_ways'] else ' -> ').join(map(str, curve['devices']))} {curve['route']}"


def fits_table(documents):
    rows = [["link", "latency us", "GB/s", "worst"]]
    for curve in curves(documents):
        fit = curve["fit"]
        numbers = ["-"] * 3 if fit is None else [f"{fit['latency_us']:.2f}", f"{fit['bandwidth_gb_s']:.1f}",
                                                 f"{fit['worst_factor']:.2f}"]
        rows.append([title(curve), *numbers])
    return rows


def size(count):
    for unit, scale in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count:g} B"


def sizes_table(documents):
    """A line for each size: time and rate of each curve; copies from the lower to the higher number alone."""
    chosen = [curve for curve in curves(documents) if curve["devices"] == sorted(curve["devices"])]
    times = [{point["bytes"]: point for point in curve["points"]} for curve in chosen]
    rows = [["us (GB/s)", *map(title, chosen)]]
    for count in sorted({count for points in times for count in points}):
        cells = [points.get(count) for points in times]
        rows.append([size(count), *("-" if cell is None or cell["error"] else
                                    f"{cell['time_us']:.2f} ({cell['gb_s']:.1f})" for cell in cells)])
    return rows


def summary(paths, form):
    documents = []
    for path in map(pathlib.Path, paths):
        document = json.loads(path.read_text())
        if document.get("schema") == "nibble.bench/1":
            documents.append((path.stem, document))
    tables = [rows_table(documents), fits_table(documents), sizes_table(documents)]
    parts = [form(rows) for rows in tables if len(rows) > 1]
    if form is markdown:
        parts[:0] = [f"`{document['command']}`" for _, document in documents]
    return "\n\n".join(parts)


def main(words):
    form = markdown if words[:1] == ["--markdown"] else plain
    files = words[1:] if form is markdown else words
    if not files or files[0].startswith("-"):
        sys.exit(__doc__)
    print(summary(files, form))


if __name__ == "__main__":
    main(sys.argv[1:])
