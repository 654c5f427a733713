#!/usr/bin/env python3
"""Writes docs/json.md, the fields of each command's --json, from the schemas in docs/schemas/."""
import argparse
import json
import pathlib
import sys
from typing import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "json.md"
SCHEMAS = ROOT / "docs" / "schemas"
# Fields that a caller reads first come first; the others follow by name.
ORDER = ["tune", "tune-plan", "best", "replay", "bench", "bench-model", "run", "run-model", "show", "explain",
         "explain-model", "export", "report", "extract", "compile", "weights", "ops", "targets", "help", "version"]

HEAD = """# JSON output

`scripts/json_page.py` writes this page from the JSON Schemas in `docs/schemas/` (draft 2020-12). A test runs each command and validates what it prints. `$ref` leads to `common.json` beside them.

- `--json` prints one document on standard output and nothing else. Progress and messages go to standard error.
- A failure prints `{"error": …}` instead ([codes](cli.md#what-comes-out)).
- Times are in seconds. A field that has no value is absent or `null`, as its row says.
- Fields are added and never change their meaning. A reader should pass over fields that it does not know.

```
tune-cli tune 'matmul:m=64,n=64,k=64' --trials 2 --json
tune-cli replay 'matmul:m=64,n=64,k=64' --json
```

"""


def load(name: str) -> dict:
    return json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))


def resolved(schema: dict, common: dict) -> dict:
    """The schema behind a reference to common.json."""
    if "$ref" in schema:
        return common["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def type_of(schema: dict) -> str:
    types = schema.get("type", "any")
    if isinstance(types, str):
        types = [types]
    if "enum" in schema:
        types = [" ".join(f"`{word}`" for word in schema["enum"]),
                 *(["null"] if "null" in types else [])]
    return " or ".join(types)


def fields(schema: dict, path: str, common: dict) -> Iterator[str]:
    """A row for each field, those of objects and lists below it with their path."""
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        shared = "$ref" in field
        field = resolved(field, common)
        place = f"{path}{name}"
        always = "" if name in required else ", optional"
        words = field.get("description", "")
        if shared and field.get("properties"):
            words += f": [its fields](#{schema_anchor(field, common)})"
        yield f"| `{place}` | {type_of(field)}{always} | {words} |"
        if shared:
            continue
        yield from below(field, place, common)


def below(field: dict, place: str, common: dict) -> Iterator[str]:
    items, values = field.get("items", {}), field.get("additionalProperties")
    if "properties" in field:
        yield from fields(field, f"{place}.", common)
    elif "properties" in items:
        yield from fields(items, f"{place}[].", common)
    elif isinstance(values, dict) and "properties" in values:
        yield from fields(values, f"{place}.*.", common)


def schema_anchor(field: dict, common: dict) -> str:
    return next(name for name, known in common["$defs"].items() if known is field)


def table(schema: dict, common: dict) -> str:
    rows = "\n".join(fields(schema, "", common))
    return f"| field | type | meaning |\n| --- | --- | --- |\n{rows}\n"


def page() -> str:
    common = load("common")
    names = sorted(file.stem for file in SCHEMAS.glob("*.json") if file.stem != "common")
    names = [name for name in ORDER if name in names] + [n for n in names if n not in ORDER]
    text = HEAD
    for name in names:
        schema = load(name)
        text += f"## {name}\n\n{schema['title']}, `docs/schemas/{name}.json`\n\n"
        text += table(schema, common) + "\n"
    text += "## Shared parts\n\n"
    for name, schema in common["$defs"].items():
        if schema.get("properties"):
            text += f"### {name}\n\n{table(schema, common)}\n"
    return text.rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    parser.add_argument("--check", action="store_true",
                        help="write nothing; exit 1 where the page is not current")
    options = parser.parse_args()
    text = page()
    if not options.check:
        options.page.write_text(text, encoding="utf-8")
        return 0
    if options.page.exists() and options.page.read_text(encoding="utf-8") == text:
        return 0
    print("The page is not current: scripts/json_page.py writes it.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
