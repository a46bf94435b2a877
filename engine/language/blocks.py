"""Block tags in text: ``if unless case for assign comment raw``, as Liquid has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from flo.engine.comparison import equal
from flo.engine.errors import ExpressionInvalid, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.language import rendering
from flo.engine.language.expressions import Expression, compile_expression, in_order
from flo.engine.language.grammar import FILTER, LITERALS
from flo.engine.language.marks import Piece
from flo.engine.language.nodes import Node, compared, compared_with_special
from flo.engine.language.parser import MAX_NESTING, Parser
from flo.engine.language.paths import Path, Run
from flo.engine.language.rendering import Draw

TAGS: Final = ("assign", "break", "case", "comment", "continue", "for", "if", "raw", "unless")
_INNER: Final = ("else", "elsif", "endcase", "endcomment", "endfor", "endif", "endraw", "endunless", "when")
_INSTEAD: Final = {"set": "assign", "elif": "elsif", "elseif": "elsif"}
_ASSIGNED: Final = re.compile(r"[^\W\d][\w$-]*|\$[\w$-]+")


@frozen
class Part:
    """A part of a text, compiled. A ``blank`` one writes nothing that anybody sees: blanks, or a tag around such parts;
    Liquid writes nothing at all for a block of them."""

    draw: Draw
    blank: bool
    text: bool = False


@frozen
class Compiled:
    """The parts of a text and the paths they refer to, but for loop variables and assigned names."""

    draw: Draw
    paths: tuple[Path, ...]


def compile_blocks(text: str, pieces: Sequence[Piece]) -> Compiled:
    """Compile a text that has block tags. Raises ``ExpressionInvalid``."""
    reader = _Reader(text, pieces)
    parts = reader.parts(())
    return Compiled(rendering.sequence([part.draw for part in parts]), tuple(reader.paths))


class _Reader:
    """Reads pieces from first to last. ``assigned`` are the names given by ``assign`` so far, ``loops`` the loop
    variables around, ``paths`` what is referred to beside those."""

    def __init__(self, text: str, pieces: Sequence[Piece]) -> None:
        self.text, self.pieces = text, pieces
        self.index = 0
        self.level = 0
        self.assigned: set[str] = set()
        self.loops: list[str] = []
        self.paths: list[Path] = []

    def problem(self, message: str, piece: Piece) -> ExpressionInvalid:
        return ExpressionInvalid(message, self.text, piece.position)

    def parts(self, until: Iterable[str], opening: Piece | None = None) -> list[Part]:
        """Read parts up to a tag named in ``until``, which is left to be read; or to the end where nothing was
        opened."""
        self.level += 1
        if self.level > MAX_NESTING:
            raise self.problem(f"block tags nested deeper than {MAX_NESTING}", self.pieces[self.index - 1])
        parts: list[Part] = []
        while self.index < len(self.pieces):
            piece = self.pieces[self.index]
            if piece.kind == "tag" and piece.name in until:
                self.level -= 1
                return parts
            self.index += 1
            parts.append(self._part(piece, opening))
        if opening:
            raise self.problem(f"{opening.name!r} is never closed; '{{% end{opening.name} %}}' is missing", opening)
        return parts

    def _part(self, piece: Piece, opening: Piece | None) -> Part:
        if piece.kind == "text":
            return Part(rendering.literal(piece.text), piece.text.isspace(), text=True)
        if piece.kind == "expression":
            expression = compile_expression(piece.text)
            self._refer(expression.paths)
            return Part(rendering.output(expression), False)
        match piece.name:
            case "if" | "unless":
                return self._if(piece)
            case "case":
                return self._case(piece)
            case "for":
                return self._for(piece)
            case "assign":
                return self._assign(piece)
            case "raw":
                return Part(rendering.literal(piece.text), False)
            case "comment":
                return Part(rendering.literal(""), True)
            case "break" | "continue":
                return self._jump(piece)
        raise self._stray(piece, opening)

    def _stray(self, piece: Piece, opening: Piece | None) -> ExpressionInvalid:
        if piece.name in _INNER:
            inside = f"inside of {opening.name!r}" if opening else "here"
            return self.problem(f"the tag {piece.name!r} means nothing {inside}", piece)
        instead = _INSTEAD.get(piece.name)
        hint = f"; did you mean {instead!r}?" if instead else did_you_mean(piece.name, (*TAGS, *_INNER))
        return self.problem(f"no tag {piece.name!r}{hint}" if piece.name else "the name of a tag is missing", piece)

    def _refer(self, paths: Iterable[Path]) -> None:
        self.paths += [path for path in paths if path.root not in self.assigned and path.root not in self.loops]

    def _next_tag(self) -> Piece:
        piece = self.pieces[self.index]
        self.index += 1
        return piece

    def _bare(self, piece: Piece) -> None:
        if piece.text:
            raise self.problem(f"the tag {piece.name!r} takes nothing, but {piece.text!r} came", piece)

    def _condition(self, piece: Piece) -> Expression:
        if not piece.text:
            raise self.problem(f"a condition is missing after {piece.name!r}", piece)
        expression = compile_expression(piece.text)
        self._refer(expression.paths)
        return expression

    def _if(self, opening: Piece) -> Part:
        end = f"end{opening.name}"
        conditions: list[tuple[Expression, bool]] = []
        bodies: list[list[Part]] = []
        tag = opening
        while tag.name != end:
            if len(bodies) > len(conditions):
                raise self.problem(f"the tag {tag.name!r} stands behind 'else'", tag)
            if tag.name == "else":
                self._bare(tag)
            else:
                conditions.append((self._condition(tag), tag.name != "unless"))
            bodies.append(self.parts((end, "else", "elsif"), opening))
            tag = self._next_tag()
        self._bare(tag)
        draws, blank = _joined(bodies)
        branches = [(*condition, draw) for condition, draw in zip(conditions, draws, strict=False)]
        return Part(rendering.first_that_holds(branches, draws[-1] if len(draws) > len(branches) else None), blank)

    def _case(self, opening: Piece) -> Part:
        subject = self._condition(opening)
        if not all(part.blank for part in self.parts(("when", "else", "endcase"), opening)):
            raise self.problem("something stands between 'case' and the first 'when'", opening)
        tests: list[Sequence[Run] | None] = []
        bodies: list[list[Part]] = []
        while (tag := self._next_tag()).name != "endcase":
            if tag.name == "else":
                self._bare(tag)
            tests.append(self._tests(tag, subject) if tag.name == "when" else None)
            bodies.append(self.parts(("when", "else", "endcase"), opening))
        self._bare(tag)
        draws, blank = _joined(bodies)
        return Part(rendering.matching(list(zip(tests, draws, strict=True))), blank)

    def _tests(self, tag: Piece, subject: Expression) -> list[Run]:
        """Read the values of a ``when``, set apart by commas or ``or``; give what compares the subject with each."""
        parser = Parser(tag.text)
        tests: list[Run] = []
        while True:
            value = parser.operand()
            if value.special:
                tests.append(compared_with_special(Node(subject.run), value.special, opposite=False))
            else:
                tests.append(compared(subject.run, value.run, equal))
            if not (parser.accept(",") or parser.accept("or")):
                break
        parser.finish()
        self._refer(in_order(parser.paths))
        return tests

    def _for(self, opening: Piece) -> Part:
        parser = Parser(opening.text)
        variable = self._name(parser)
        parser.expect("in", "after the name")
        start = parser.token.position
        items = parser.parse(FILTER)
        name = f"{variable}-{opening.text[start : parser.tokens[parser.index - 1].end]}"
        loop = rendering.Loop(variable, name, items.run, opening.text, start)
        while parser.token.kind != "end":
            loop = self._modified(loop, parser)
        self._refer(in_order(parser.paths))
        return self._loop(opening, loop)

    def _modified(self, loop: rendering.Loop, parser: Parser) -> rendering.Loop:
        parser.accept(",")
        if parser.accept("reversed"):
            return replace(loop, backwards=True)
        if parser.accept("limit"):
            parser.accept(":")
            return replace(loop, limit=parser.operand().run)
        if parser.accept("offset"):
            parser.accept(":")
            if parser.accept("continue"):
                return replace(loop, resumes=True)
            return replace(loop, offset=parser.operand().run)
        known = did_you_mean(parser.token.text, ("limit", "offset", "reversed"))
        raise parser.problem(f"{parser.token.text!r} means nothing behind the items of 'for'{known}")

    def _loop(self, opening: Piece, loop: rendering.Loop) -> Part:
        first, before = len(self.paths), set(self.assigned)
        self.loops += [loop.variable, "forloop"]
        bodies = [self.parts(("else", "endfor"), opening)]
        del self.loops[-2:]
        # What the body assigns is there from the second time on.
        given = self.assigned - before
        self.paths[first:] = [path for path in self.paths[first:] if path.root not in given]
        tag = self._next_tag()
        self._bare(tag)
        if tag.name == "else":
            bodies.append(self.parts(("endfor",), opening))
            self._bare(self._next_tag())
        draws, blank = _joined(bodies)
        return Part(rendering.repeated(loop, draws[0], draws[1] if len(draws) > 1 else None), blank)

    def _name(self, parser: Parser) -> str:
        token = parser.advance()
        if token.kind != "name" or not _assignable(token.text):
            came = f"{token.text!r} came" if token.text else "the tag ends"
            raise parser.problem(f"a name is missing here; {came}", token.position)
        return token.text

    def _assign(self, piece: Piece) -> Part:
        found = re.match(r"\s*([^\s=]*)\s*(=?)", piece.text)
        name, equals = (found[1], found[2]) if found else ("", "")
        if not _assignable(name):
            raise self.problem(
                f"{name!r} is no name that can be assigned" if name else "a name to assign is missing", piece
            )
        if not equals:
            raise self.problem(f"'=' is missing after {name!r}", piece)
        expression = compile_expression(piece.text[found.end() if found else 0 :])
        self._refer(expression.paths)
        self.assigned.add(name)
        return Part(rendering.assigned(name, expression), True)

    def _jump(self, piece: Piece) -> Part:
        self._bare(piece)
        if not self.loops:
            raise self.problem(f"{piece.name!r} stands outside of a 'for'", piece)
        return Part(rendering.jump(rendering.Jump(piece.name)), True)


def _assignable(name: str) -> bool:
    """Whether an expression could read a value by this name."""
    return bool(_ASSIGNED.fullmatch(name)) and name not in LITERALS and name != "not"


def _joined(bodies: Sequence[Sequence[Part]]) -> tuple[list[Draw], bool]:
    """Join the parts of each branch of a tag. Where all are blank, only what they assign and where they jump to is
    left."""
    blank = all(part.blank for body in bodies for part in body)
    return [rendering.sequence([part.draw for part in body if not (blank and part.text)]) for body in bodies], blank
