#!/usr/bin/env python3
"""Measures the prose of comments, messages and documents and follows links. See --help for the
limits."""
import argparse
import ast
import collections
import io
import pathlib
import re
import sys
import tokenize
from typing import Iterator, NamedTuple

from check_tree import lines_of, tracked

OPENINGS = ("Of", "What", "Those", "Likewise")
MAX_OPENINGS = 0.01  # share of all comment blocks of the tree
MAX_MEAN = 18.0  # words per sentence, the mean of a document
MAX_PARAGRAPH = 120  # words
LONG_SENTENCE = 25  # words; listed, no fault

C_LIKE = (".cc", ".h", ".c", ".cu", ".cuh", ".hpp")
HASH = (".sh", ".cmake", ".txt", ".yml", ".yaml", ".toml")
# A claim about all inputs. Interval analysis alone has one: the count of accesses that it proved.
CLAIMS = ("prove", "proves", "proved", "proven", "proving", "proof", "proofs", "guarantee",
          "guarantees", "guaranteed", "nowhere")
OVERCLAIM = re.compile(rf"\b(?:{'|'.join(CLAIMS)})\b", re.IGNORECASE)
PROVED = re.compile(r"\baccesses proved\b")
MIN_MESSAGE = 3  # words; fewer are names and keys
# Messages are for users, so tests and what they share have none.
NO_MESSAGES = ("tests/", "bench/", "examples/")
# History is not rewritten.
EXCLUDED = ("CHANGELOG.md",)
ABBREVIATIONS = ("e.g.", "i.e.", "et al.", "cf.", "vs.", "etc.")

# Strings come first, so that a comment sign within one is none.
C_TOKEN = re.compile(
    r"""R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    r"""|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)""", re.DOTALL)
DIGIT_SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")


class Piece(NamedTuple):
    """A comment as it stands in the file."""
    line: int
    column: int
    text: str
    alone: bool  # nothing but blanks before it


class Block(NamedTuple):
    """Comments that read as one."""
    path: str
    line: int
    text: str


class Paragraph(NamedTuple):
    path: str
    line: int
    text: str


def c_pieces(text: str) -> Iterator[Piece]:
    text = DIGIT_SEPARATOR.sub("_", text)
    for match in C_TOKEN.finditer(text):
        comment = match.group("line") or match.group("block")
        if not comment:
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        if match.group("block"):
            words = " ".join(part.strip().lstrip("*") for part in comment[2:-2].split("\n"))
            comment = "/*" + words
        yield Piece(text.count("\n", 0, match.start()) + 1, match.start() - start,
                    comment, not text[start:match.start()].strip())


def hash_pieces(text: str) -> Iterator[Piece]:
    """Comments of shell scripts and the like: whole lines alone, since `#` has other meanings."""
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.lstrip()
        if bare.startswith("#") and not bare.startswith("#!"):
            yield Piece(number, len(line) - len(bare), bare, True)


def python_pieces(text: str) -> Iterator[Piece]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
                yield Piece(token.start[0], token.start[1], token.string,
                            not token.line[:token.start[1]].strip())
        tree = ast.parse(text)
    except (tokenize.TokenError, SyntaxError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words = ast.get_docstring(node)
            if words:
                yield Piece(node.body[0].lineno, -1, '"""' + words, True)


def bare(comment: str) -> str:
    """The words of a comment without its signs."""
    return comment.lstrip("/*#!\"'<- \t").strip()


def joined(path: str, pieces: Iterator[Piece]) -> list[Block]:
    """Lines of comments below each other, at the same column, are one block; one behind code starts
    a block of its own."""
    blocks: list[Block] = []
    last: Piece | None = None
    for piece in pieces:
        follows = (last is not None and piece.alone and piece.line == last.line + 1
                   and piece.column == last.column and not piece.text.startswith(("/*", '"""')))
        if follows:
            blocks[-1] = blocks[-1]._replace(text=f"{blocks[-1].text} {bare(piece.text)}".strip())
        else:
            blocks.append(Block(path, piece.line, bare(piece.text)))
        last = piece
    return [block for block in blocks if block.text]


def blocks_of(root: pathlib.Path, name: str) -> list[Block]:
    text = "\n".join(lines_of(root / name))
    if name.endswith(C_LIKE):
        return joined(name, c_pieces(text))
    if name.endswith((".py", ".pyi")) or text.startswith("#!/usr/bin/env python3"):
        return joined(name, python_pieces(text))
    is_golden = name.startswith("tests/golden/")  # generated text: its '#' opens no comment
    if (name.endswith(HASH) and not is_golden) or text.startswith("#!"):
        return joined(name, hash_pieces(text))
    return []


def opens_badly(text: str) -> bool:
    return text.split(" ")[0].rstrip(",:") in OPENINGS


def c_strings(text: str) -> Iterator[tuple[int, str]]:
    """String literals with their lines; neighbouring ones are one. Raw literals hold code."""
    text = DIGIT_SEPARATOR.sub("_", text)
    line, words, end = 0, "", 0
    for match in C_TOKEN.finditer(text):
        token = match.group(0)
        if match.group("line") or match.group("block"):
            continue
        if not token.startswith('"'):
            yield line, words
            words = ""
            continue
        if not words or text[end:match.start()].strip():
            yield line, words
            line, words = text.count("\n", 0, match.start()) + 1, ""
        words, end = words + token[1:-1], match.end()
    yield line, words


def python_strings(text: str) -> Iterator[tuple[int, str]]:
    """String constants with their lines; docstrings count as comments."""
    tree = ast.parse(text)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def messages_of(root: pathlib.Path, name: str) -> list[Block]:
    """Literals that read as prose: a refusal, a help text, a heading, or a part of one."""
    text = "\n".join(lines_of(root / name))
    if name.endswith(C_LIKE):
        found = c_strings(text)
    elif name.endswith(".py") or text.startswith("#!/usr/bin/env python3"):
        found = python_strings(text)
    else:
        return []
    return [Block(name, line, words) for line, words in found
            if not words.startswith("/*") and len(re.findall(r"[A-Za-z]{2,}", words)) >= MIN_MESSAGE]


def paragraphs(root: pathlib.Path, name: str) -> list[Paragraph]:
    """Paragraphs and items of lists, without headings, tables and code blocks."""
    found: list[Paragraph] = []
    lines: list[str] = []
    start = 0
    fence = ""

    def close() -> None:
        if lines:
            found.append(Paragraph(name, start, " ".join(lines)))
            lines.clear()

    for number, line in enumerate(lines_of(root / name), 1):
        stripped = line.strip()
        if fence:
            if stripped.startswith(fence):
                fence = ""
            continue
        if stripped.startswith(("```", "~~~")):
            close()
            fence = stripped[:3]
            continue
        if line.startswith("#"):
            close()
            continue
        item = re.match(r"\s*(?:[-*+]|\d+\.)\s+(?:\[[ x]\]\s+)?(.*)", line)
        code = line.startswith("    ") and not lines and not item
        if not stripped or stripped.startswith(("|", "<!--", "![")) or code:
            close()
        elif item:
            close()
            start = number
            lines.append(item.group(1))
        else:
            start = start if lines else number
            lines.append(stripped)
    close()
    return found


def plain(text: str) -> str:
    """Text as it is read: code and links are their words, marks are gone."""
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\*\*|__", "", text)
    for short in ABBREVIATIONS:
        text = text.replace(short, short.replace(".", ""))
    return text


def words_of(text: str) -> int:
    return sum(1 for word in text.split() if re.search(r"\w", word))


def sentences(text: str) -> list[str]:
    """A sentence ends with its stop, before a capital, a digit, code or a bracket; or with the
    paragraph. A colon and a semicolon end none."""
    parts = re.split(r"(?<=[.!?])[\")”]*\s+(?=[A-Z0-9(\[\"“]|code\b)", plain(text))
    return [part for part in parts if words_of(part)]


def check_comments(root: pathlib.Path, names: list[str], listing: bool) -> list[str]:
    """At most one comment block in a hundred opens with Of, What, Those or Likewise."""
    blocks = [block for name in names for block in blocks_of(root, name)]
    bad = [block for block in blocks if opens_badly(block.text)]
    total: collections.Counter[str] = collections.Counter()
    opened: collections.Counter[str] = collections.Counter()
    for chosen, counter in ((blocks, total), (bad, opened)):
        counter.update(block.path.split("/")[0] if "/" in block.path else "." for block in chosen)
    for folder, count in sorted(total.items()):
        print(f"{folder + '/':16} {opened[folder]:5} of {count:6} comment blocks"
              f" ({100 * opened[folder] / count:.1f}%)")
    if listing:
        for block in bad:
            print(f"{block.path}:{block.line}: {block.text[:80]}")
    share = len(bad) / len(blocks) if blocks else 0
    if share > MAX_OPENINGS:
        return [f"{len(bad)} of {len(blocks)} comment blocks ({100 * share:.2f}%) open with "
                f"{', '.join(OPENINGS)}; at most {MAX_OPENINGS:.0%} may (--list names them)"]
    return []


def check_messages(root: pathlib.Path, names: list[str], _: bool) -> list[str]:
    """No message opens with Of, What, Those or Likewise, in any case. None says that something is
    proved or guaranteed, except the accesses that interval analysis proved."""
    faults = []
    count = 0
    for name in names:
        if name.startswith(NO_MESSAGES):
            continue
        for message in messages_of(root, name):
            count += 1
            place = f"{name}:{message.line}: "
            if opens_badly(message.text[:1].upper() + message.text[1:]):
                faults.append(f"{place}a message opens with '{message.text.split(' ')[0]}'")
            claim = OVERCLAIM.search(PROVED.sub("", message.text))
            if claim:
                faults.append(f"{place}a message says '{claim.group(0)}'; sampled results are "
                              "'checked', emulated ones 'validated'")
    print(f"{count} messages")
    return faults


def check_documents(root: pathlib.Path, names: list[str], listing: bool) -> list[str]:
    """A document has at most 18 words per sentence on average, and no paragraph over 120 words.
    Code blocks, tables and headings do not count, and CHANGELOG.md is excluded."""
    faults = []
    for name in names:
        if not name.endswith(".md") or name in EXCLUDED:
            continue
        counts = []
        for paragraph in paragraphs(root, name):
            place = f"{paragraph.path}:{paragraph.line}: "
            length = words_of(plain(paragraph.text))
            if length > MAX_PARAGRAPH:
                faults.append(f"{place}a paragraph of {length} words; at most {MAX_PARAGRAPH}")
            for sentence in sentences(paragraph.text):
                counts.append(words_of(sentence))
                if listing and counts[-1] > LONG_SENTENCE:
                    print(f"{place}{counts[-1]} words: {sentence[:70]}…")
        if not counts:
            continue
        mean = sum(counts) / len(counts)
        longest = sum(1 for count in counts if count > LONG_SENTENCE)
        print(f"{name:36} {mean:5.1f} words per sentence, {len(counts):4} sentences, "
              f"{longest} over {LONG_SENTENCE} words")
        if mean > MAX_MEAN:
            faults.append(f"{name}: {mean:.1f} words per sentence on average; "
                          f"at most {MAX_MEAN:.0f}")
    return faults


def prose_lines(root: pathlib.Path, name: str) -> Iterator[tuple[int, str]]:
    """Lines outside of code blocks, with their numbers; code in them is blank."""
    fenced = False
    for number, line in enumerate(lines_of(root / name), 1):
        if line.strip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(root: pathlib.Path, name: str) -> set[str]:
    """Names of headings, as GitHub makes them."""
    found: collections.Counter[str] = collections.Counter()
    names = set()
    for _, line in prose_lines(root, name):
        match = re.match(r"#{1,6} +(.*)", line)
        if match:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1)).strip().lower()
            anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            names.add(f"{anchor}-{found[anchor]}" if found[anchor] else anchor)
            found[anchor] += 1
    return names


def check_links(root: pathlib.Path, names: list[str], _: bool) -> list[str]:
    """Links between documents lead to files and headings that exist."""
    faults = []
    for name in names:
        if not name.endswith(".md"):
            continue
        for number, line in prose_lines(root, name):
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "code", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = (root / name).parent / path if path else root / name
                if not file.exists():
                    faults.append(f"{name}:{number}: no file {path}")
                elif anchor and anchor not in anchors(root, str(file.resolve().relative_to(
                        root.resolve()))):
                    faults.append(f"{name}:{number}: no heading #{anchor} in {path or name}")
    return faults


CHECKS = {"comments": check_comments, "messages": check_messages, "documents": check_documents, "links": check_links}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name}: {check.__doc__}" for name, check in CHECKS.items()))
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", action="store_true",
                        help="print the places, and sentences over 25 words, which are no fault")
    parser.add_argument("--only", metavar="PREFIX", default="",
                        help="files whose path begins so; shares are those of these files")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="default: all")
    options = parser.parse_args()
    unknown = [name for name in options.checks if name not in CHECKS]
    if unknown:
        parser.error(f"no check is called '{unknown[0]}'; there are: {', '.join(CHECKS)}")

    names = [name for name in tracked(options.root) if name.startswith(options.only)]
    faults = [fault for name in options.checks or CHECKS
              for fault in CHECKS[name](options.root, names, options.list)]
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{len(names)} files: no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
