#!/usr/bin/env python3
"""Puts a measured link into the catalog, marked as measured with its command and date.

    nibble bench link --json > link.json
    tools/link_to_catalog.py h200 link.json

The link comes first in data/machines/NAME.json, in place of the one of its name, whose data sheet number
stays in the new number's source; nothing else of the file changes. Numbers are kept to four digits.
"""
import datetime
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def entry(link):
    """A link as the catalog's files write it."""
    return ("    {\n" f'      "name": {json.dumps(link["name"])},\n'
            f'      "bandwidth_gb_s": {json.dumps(link["bandwidth_gb_s"])},\n'
            f'      "latency_us": {json.dumps(link["latency_us"])}\n' "    }")


def with_date(number, date, old):
    """The measured number with the date, and the number that it replaces if that was the maker's."""
    source = f"{date}, {number['source']}"
    if old and old["is"] == "datasheet":
        source += f"; the data sheet's number is {old['value']:g}: {old['source']}"
    return {"value": float(f"{number['value']:.4g}"), "is": "measured", "source": source}


def changed_catalog(text, document):
    """The text of a catalog's file with the document's link first."""
    found = document.get("link", {}).get("links", [])
    if not found:
        sys.exit("link_to_catalog.py: the document has no measured link; its notes say why")
    measured = found[0]
    date = datetime.datetime.fromtimestamp(document["taken_unix_s"], datetime.timezone.utc).date().isoformat()
    links = json.loads(text)["links"]
    old = next((link for link in links if link["name"] == measured["name"]), {})
    new = {"name": measured["name"]}
    for key in ("bandwidth_gb_s", "latency_us"):
        new[key] = with_date(measured[key], date, old.get(key))
    others = [link for link in links if link["name"] != measured["name"]]
    body = ",\n".join(entry(link) for link in [new, *others])
    changed, count = re.subn(r'"links": \[\n.*?\n  \]', lambda _: f'"links": [\n{body}\n  ]', text, count=1,
                             flags=re.DOTALL)
    if count != 1:
        sys.exit("link_to_catalog.py: the catalog's file has no list of links")
    return changed


def main(words):
    if len(words) != 2:
        sys.exit(__doc__)
    path = ROOT / "data/machines" / f"{words[0]}.json"
    if not path.is_file():
        sys.exit(f"link_to_catalog.py: the catalog has no {words[0]}")
    path.write_text(changed_catalog(path.read_text(), json.loads(pathlib.Path(words[1]).read_text())))
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
