#!/usr/bin/env python3
"""Breaks things on purpose and asks `nibble diagnose` what is wrong: the confusion matrix of docs/measured.md.

    tools/fault_injection.py run PROGRAM --set calibration          what thresholds may be set by
    tools/fault_injection.py run PROGRAM --set published            other seeds and strengths, for the matrix
    tools/fault_injection.py run PROGRAM --set published --only engine.scheduler_cap
    tools/fault_injection.py write                                  docs/measured.md from docs/faults_published.json
    tools/fault_injection.py check                                  fails when that is not what would be written

A trial is a fault at one strength with one seed, in the real engine (`nibble serve`, its load), in the mock
(which scripts mechanisms: a queue, a delay, a cap) or in recorded series. The faults are in tools/faults/.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from faults import engine, matrix, mock, recorded  # noqa: E402

KINDS = {"engine": engine, "mock": mock, "recorded": recorded}


def trials(which, only):
    for kind, module in KINDS.items():
        for trial in module.trials(which):
            trial.kind = kind
            if not only or any(f"{kind}.{trial.fault}".startswith(one) for one in only):
                yield trial


def outcome(trial, program):
    """The diagnosis of one trial as a row of the document."""
    start = time.monotonic()
    try:
        diagnosis = trial.diagnose(program)
    except (subprocess.SubprocessError, RuntimeError, ValueError) as error:
        diagnosis, reason = None, str(error)[-500:]
    row = {"kind": trial.kind, "fault": trial.fault, "expected": trial.expected, "strength": trial.strength,
           "seed": trial.seed, "seconds": round(time.monotonic() - start, 1)}
    if diagnosis is None:
        return {**row, "first": None, "error": reason, "verdicts": []}
    verdicts = [{key: verdict[key] for key in ("class", "confidence", "certainty")}
                for verdict in diagnosis["verdicts"]]
    return {**row, "first": matrix.first_of(verdicts), "error": None, "verdicts": verdicts}


def run(arguments):
    rows, commit = [], matrix.commit(ROOT)  # of the program that is asked, whatever comes meanwhile
    target = pathlib.Path(arguments.out or ROOT / f"docs/faults_{arguments.set}.json")
    for trial in trials(arguments.set, arguments.only):
        row = outcome(trial, arguments.program)
        rows.append(row)
        mark = "right" if row["first"] == row["expected"] else "WRONG"
        print(f"{mark}  {row['kind']}.{row['fault']} {row['strength']}  ->  {row['first'] or row['error']}  "
              f"{[(v['class'], round(v['confidence'], 2)) for v in row['verdicts'][:3]]}  {row['seconds']} s",
              flush=True)
    document = {"schema": "nibble.faults/1", "set": arguments.set, "date": time.strftime("%Y-%m-%d", time.gmtime()),
                "commit": commit, "machine": matrix.machine(), "trials": rows}
    if arguments.only and target.exists() and not arguments.out:
        sys.exit("--only is for a look: its rows are not kept (give --out)")
    partial = target.with_suffix(".part")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.replace(target)
    print(matrix.summary(rows))
    return 0 if matrix.holds(rows) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("program")
    runs.add_argument("--set", choices=("calibration", "published"), required=True)
    runs.add_argument("--only", action="append", default=[])
    runs.add_argument("--out")
    commands.add_parser("write")
    commands.add_parser("check")
    arguments = parser.parse_args()
    if arguments.command == "run":
        return run(arguments)
    return matrix.write(ROOT) if arguments.command == "write" else matrix.check(ROOT)


if __name__ == "__main__":
    sys.exit(main())
