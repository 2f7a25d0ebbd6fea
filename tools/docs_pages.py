"""Generated pages of the docs site: functions, the public API, and the benchmarks.

mkdocs calls `on_files` and `on_page_markdown` (mkdocs.yml, hooks). Generated pages exist only in the site, so they
cannot become out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_FENCE = re.compile(r"^```(\w+) [^\n]*$", re.MULTILINE)
_SECTION = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
_INTERNAL = {"is_null", "is_not_null", "starts_with", "ends_with"}  # Spark has them under other names


def functions_page() -> str:
    """Every function that SQL calls by name, with its arguments, from the records that bind and compute it."""
    from freshet.scalar.functions import FUNCTIONS
    from freshet.sql.calls import SPELLED

    functions = {f.name: f for name, f in FUNCTIONS.items() if name in SPELLED - _INTERNAL}
    lines = [
        "# SQL functions",
        "",
        "Generated from the records of the functions. [SQL](../sql.md#functions) lists them by subject, with",
        "aggregates, window functions and differences from Spark. *On NULL*: the result if an argument is NULL.",
        "",
        "| function | also | takes | on NULL |",
        "|---|---|---|---|",
    ]
    for name in sorted(functions):
        f = functions[name]
        also = ", ".join(f"`{other}`" for other in sorted(f.also) if other in SPELLED)
        nulls = "NULL" if f.nulls.decides else "depends on the function"
        lines.append(f"| `{name}` | {also} | {_cell(f.takes)} | {nulls} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("*", "\\*")


def api_page(title: str, intro: str, names: dict[str, Any]) -> str:
    """Public names with their signatures and docstrings."""
    lines = [f"# {title}", "", intro, ""]
    for name, each in names.items():
        lines += _described(name, each, 2)
    return "\n".join(lines) + "\n"


def _described(name: str, each: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{name}`\n"
    if callable(each) and not inspect.isclass(each):
        yield f"```text\n{name}{_signature(each)}\n```\n"
    yield _as_markdown(inspect.getdoc(each) or "")
    if inspect.isclass(each):
        for member, value in _members(each).items():
            yield from _described(f"{name}.{member}", value, level + 1)


def _signature(each: Any) -> str:
    try:
        return str(inspect.signature(each)).replace("(self, ", "(").replace("(self)", "()")
    except (TypeError, ValueError):
        return "(...)"


def _members(each: type) -> dict[str, Any]:
    ours = [part for part in each.__mro__ if part.__module__.startswith("freshet.")]
    members = {name: value for part in reversed(ours) for name, value in vars(part).items()}
    shown = {
        name: value.__func__ if isinstance(value, classmethod) else value
        for name, value in members.items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, (property, classmethod)))
        and "Examples" in (inspect.getdoc(value) or "")  # what is documented for users
    }
    return dict(sorted(shown.items()))


def _as_markdown(text: str) -> str:
    """A docstring in numpy's form: sections as bold lines, parameters as a list, examples as blocks."""
    text = _SECTION.sub(lambda m: f"**{m[1]}**\n", text)
    out, in_list, in_code = list[str](), False, False
    for line in text.splitlines():
        if line.startswith("**") and line.endswith("**"):
            in_list = line in ("**Parameters**", "**Attributes**", "**Raises**", "**Returns**", "**Yields**")
        code = line.startswith((">>> ", "... ")) or (in_code and bool(line.strip()))
        if code != in_code:
            out.append("```pycon" if code else "```\n")
            in_code = code
        if code:
            out.append(line)
        elif in_list and line and not line.startswith((" ", "**")):
            out.append(f"\n- `{line}`:")
        else:
            out.append(f"  {line.strip()}" if in_list and line.startswith(" ") else line)
        if line.startswith("**"):
            out.append("")
    return "\n".join([*out, *(["```"] if in_code else []), ""])


def python_page() -> str:
    import freshet
    from freshet.testing import assert_fresh

    names = {f"freshet.{n}": getattr(freshet, n) for n in freshet.__all__ if n != "__version__"}
    names["freshet.testing.assert_fresh"] = assert_fresh
    return api_page("Python", "Everything that `import freshet` offers. The test suite runs the examples.", names)


def spark_page() -> str:
    import freshet.spark as module

    names = {f"freshet.spark.{n}": getattr(module, n) for n in module.__all__}
    return api_page("Python on Spark", "What `freshet.spark` offers.", names)


def benchmarks_page() -> str:
    """The results in the repository, as one page."""
    results = ROOT / "benchmarks" / "results"
    pages = re.findall(r"\]\(([\w-]+\.md)\)", (results / "README.md").read_text())
    parts = [re.sub(r"\]\(([\w-]+)\.md\)", r"](#\1)", (results / "README.md").read_text())]
    for name in dict.fromkeys(pages):
        title, _, body = (results / name).read_text().partition("\n")
        anchor = f"{{ #{name.removesuffix('.md')} }}"
        parts.append(f"## {title.lstrip('# ')} {anchor}\n" + body.replace("\n## ", "\n### "))
    return "\n\n".join(parts)


PAGES = {
    "reference/functions.md": functions_page,
    "reference/api.md": python_page,
    "reference/spark.md": spark_page,
    "reference/benchmarks.md": benchmarks_page,
}


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    for picture in (ROOT / "benchmarks" / "results").glob("*.svg"):
        files.append(File.generated(config, f"reference/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Removes the words after a block's language, which are for the tests that run the blocks."""
    return _FENCE.sub(r"```\1", markdown)
