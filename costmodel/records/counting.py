"""How many GPUs plain words count: numbers beside names, nodes and boxes, in clauses that may say it twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .boards import BOARD
from .wording import EACH, GPUS, HALF, NODES

#: What parts clauses; of nodes, those that say over how many of them GPUs are spread.
_SPREAD = ("on", "across", "over", "in")
_APART = frozenset([",", ";", "(", ")", ":", "/", "+", "with", "using", "and", "or", "for", *_SPREAD])
_IN_ALL = ("total", "all", "overall", "combined")
#: GPUs that a node usually has.
_NODEFUL = 8
_BOX = re.compile(r"BOX(\d+)(\w+)")
_MANY = re.compile(r"(?i)cluster|fleet|several|multiple|pods?|racks?|nodes|gpus")
MOST_GPUS = 100_000


@dataclass(frozen=True)
class Counted:
    """GPUs that words count: ``gpus`` None where they do not, ``one`` whether they leave it at a single one.

    ``nodes``: nodes that they name; ``each``: GPUs of a node, where the number of nodes is not among the words.
    """

    gpus: int | None = None
    nodes: int | None = None
    each: int | None = None
    one: bool = False


@dataclass
class _Clause:
    """One clause: its count, whether a box alone says it, its nodes, whether it counts by the node."""

    words: list[str]
    before: str = ""
    count: float | None = None
    boxed: bool = False
    nodes: int | None = None
    joined: bool = False
    unclear: bool = False
    numbers: list[tuple[int, int, str]] = field(default_factory=list)


def counted(words: Sequence[str], written: str, nodes: int | None = None) -> Counted:
    """Return how many GPUs words count. ``nodes``: their number where it is stated elsewhere."""
    parts = [part for part in _split(words, ("+",)) if part[1]]
    if len(parts) > 1:
        sums = [_total([_read(*each) for each in _split(part, _APART)], None).gpus for _, part in parts]
        known = [gpus for gpus in sums if gpus is not None]
        if len(known) == len(sums):
            return Counted(sum(known))
    clauses = [_read(*each) for each in _split(words, _APART)]
    found = _total(clauses, nodes)
    many = any(clause.unclear for clause in clauses) or NODES in words or bool(_MANY.search(written))
    return Counted(found.gpus, found.nodes, found.each, not many and found.gpus is None and not nodes)


def _split(words: Sequence[str], apart: Sequence[str] | frozenset[str]) -> Iterator[tuple[str, list[str]]]:
    """Parts between words, each with the one before it. "with" joins a node to what is in it."""
    part, before, last = list[str](), "", ""
    for word in words:
        if word.lower() in apart and not (word.lower() == "with" and last == NODES):
            yield before, part
            part, before = [], word.lower()
        else:
            part.append(word)
        last = word
    yield before, part


def _read(before: str, words: list[str]) -> _Clause:
    clause = _Clause([word for word in words if word.lower() not in ("of", "with")], before)
    for place, word in enumerate(clause.words):
        if re.fullmatch(r"\d{1,5}", word):
            clause.numbers.append((int(word), place, _counts(clause.words, place)))
    clause.unclear = any(not what for _, _, what in clause.numbers)
    named = [(number, place) for number, place, what in clause.numbers if what == NODES]
    counts = [(number, place, what) for number, place, what in clause.numbers if what not in ("", NODES)]
    if named:
        clause.nodes = named[0][0]
        first = min((place for _, place, _ in counts), default=len(clause.words))
        after = named[0][1] > 0 and clause.words[named[0][1] - 1] == "x"
        clause.joined = named[0][1] < first or after
    elif len(counts) == 1 and _of_nodes(clause.words, counts[0][1]):
        clause.nodes = counts[0][0]
        return clause
    return _multiplied(clause, counts)


def _counts(words: Sequence[str], place: int) -> str:
    """What a number counts: NODES, GPUS, boxes, boards; "x" by its sign alone; "" where that is not clear."""
    if words[place + 1 : place + 2] == [NODES] or words[place + 1 : place + 3] == ["x", NODES]:
        return NODES
    if words[place + 2 : place + 3] == [NODES] and words[place + 1].lower() in ("prefill", "decode"):
        return NODES
    passed = 0
    for word in words[place + 1 :]:
        if word in (GPUS, BOARD) or _BOX.fullmatch(word):
            return word
        if word == NODES:
            return "x"
        passed += word != "x" and not word.isdigit()
        if passed > 4:
            break
    before = words[place - 1] if place else ""
    sign = before == "x" or (
        words[place + 1 : place + 2] == ["x"]
        and words[place + 2 : place + 3] != []
        and words[place + 2].isdigit()
    )
    return "x" if sign else ""


def _of_nodes(words: Sequence[str], place: int) -> bool:
    """8 BOARD NODES: a number of nodes, and none of the GPUs in one."""
    return list(words[place + 1 : place + 3]) == [BOARD, NODES] and words[place] != "1"


def _multiplied(clause: _Clause, counts: Sequence[tuple[int, int, str]]) -> _Clause:
    """The product of a clause's numbers, and of its box."""
    boxes = [(place, found) for place, word in enumerate(clause.words) if (found := _BOX.fullmatch(word))]
    product = 1.0
    for number, _, _ in counts:
        product *= number
    if boxes:
        place, box = boxes[0]
        if not any(_is_size(number, at, what, place, box, clause.words) for number, at, what in counts):
            product *= int(box[1])
    if not counts and not boxes:
        return clause
    product *= 0.5 if HALF in clause.words else 1
    if clause.nodes and clause.joined:
        product *= clause.nodes
    clause.count, clause.boxed = product, not counts and not clause.joined
    return clause


def _is_size(number: int, at: int, what: str, place: int, box: re.Match[str], words: Sequence[str]) -> bool:
    """Whether a number beside a box says how many are in one, not how many boxes there are."""
    if what == GPUS:
        return True
    if number != int(box[1]):
        return False
    signed = at > 0 and words[at - 1] == "x"
    return box[2] == "hgx" or (at > place and (box[2] == "dgx" or not signed))


def _total(clauses: Sequence[_Clause], stated: int | None) -> Counted:
    """What clauses say together: the first count in numbers, else that of a box, by the nodes where it is of one."""
    numbered = [clause for clause in clauses if clause.count is not None and not clause.boxed]
    boxed = [clause for clause in clauses if clause.boxed]
    apart = [
        clause for clause in clauses if clause.nodes and not (clause.joined and clause.count is not None)
    ]
    nodes = apart[0].nodes if apart else None
    named = next((clause.nodes for clause in clauses if clause.nodes), None)
    if not numbered and not boxed:
        return Counted(None, named)
    chosen = (numbered or boxed)[0]
    each = (EACH in chosen.words or chosen.boxed) and not chosen.joined
    in_all = any(word.lower() in _IN_ALL for clause in clauses for word in clause.words)
    spread = any(clause.before in _SPREAD for clause in apart)
    if not each and not in_all and not spread and not chosen.joined and chosen.count == _NODEFUL:
        each = (nodes or stated or 1) > 1
    times = (nodes or stated or 1) if each else 1
    gpus = int((chosen.count or 0) * times)
    alone = EACH in chosen.words and not chosen.joined and not (nodes or stated)
    return Counted(gpus if 1 <= gpus <= MOST_GPUS else None, named, gpus if alone else None)
