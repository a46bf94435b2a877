"""From the tokens of an expression to a function that evaluates it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final

from flo.engine.errors import ExpressionInvalid, did_you_mean
from flo.engine.language import grammar, nodes, operators
from flo.engine.language.filters import FILTERS, Filter
from flo.engine.language.lexer import Token, tokenize
from flo.engine.language.nodes import Node
from flo.engine.language.operators import Value
from flo.engine.language.paths import Path, Run, Segment, getter
from flo.engine.language.scope import Missing
from flo.engine.values import MAX_DEPTH, Json

MAX_NESTING: Final = 100
"""Parts of an expression may stand this deep inside each other."""
MAX_OPERATORS: Final = 1_000
"""An expression may have this many operators and filters."""


class Parser:
    """Reads one expression, or the expressions of one block tag. ``paths`` collects what they refer to."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokenize(source)
        self.index = 0
        self.paths: list[Path] = []
        self.operators = 0
        self.level = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.index += 1
        return token

    def problem(self, message: str, position: int | None = None) -> ExpressionInvalid:
        """An error at ``position``, or at the next token."""
        return ExpressionInvalid(message, self.source, self.token.position if position is None else position)

    def at(self, text: str) -> bool:
        """Whether the next token is this operator or word."""
        return self.token.text == text and self.token.kind in ("operator", "name")

    def accept(self, text: str) -> bool:
        found = self.at(text)
        if found:
            self.index += 1
        return found

    def expect(self, text: str, why: str) -> None:
        if not self.accept(text):
            raise self.problem(f"{text!r} is missing {why}; {self._came()}")

    def finish(self) -> None:
        """Raise if anything is left."""
        if self.token.kind == "end":
            return
        previous = self.tokens[self.index - 1]
        if previous.kind in ("name", "key") and previous.text.endswith("-"):
            raise self.problem("a hyphen inside a name belongs to the name; a subtraction has blanks around it")
        if self.at("("):
            raise self.problem("nothing can be called; a filter stands after '|'")
        raise self.problem(f"an operator is missing before {self.token.text!r}")

    def parse(self, loosest: int = 0) -> Node:
        """Read an expression of operators that bind at least as tight as ``loosest``."""
        self.level += 1
        if self.level > MAX_NESTING:
            raise self.problem(f"an expression nested deeper than {MAX_NESTING}")
        left = self._prefix()
        while True:
            word = self._infix_word()
            binding = grammar.BINDING.get(word, -1)
            if binding < max(loosest, 0):
                break
            left = self._infix(left, word, binding)
        if loosest == 0 and self.at("if"):
            left = self._choice(left)
        self.level -= 1
        return left

    def operand(self) -> Node:
        """Read what may stand as an argument of a filter without parentheses: arithmetic, and tighter."""
        return self.parse(grammar.FILTER + 1)

    def _infix_word(self) -> str:
        if self.token.kind not in ("operator", "name"):
            return ""
        if self.token.text == "not" and self.tokens[self.index + 1].text == "in":
            return "not in"
        return self.token.text

    def _infix(self, left: Node, word: str, binding: int) -> Node:
        if word == "|":
            return self._filters(left)
        if word in grammar.COMPARISONS:
            return self._comparison(left, word)
        if word in ("and", "or"):
            return self._decision(left, word, binding)
        rest: list[tuple[Callable[[Value, Value], Json], Run, int]] = []
        deepest = left
        while self.token.kind == "operator" and grammar.BINDING.get(self.token.text) == binding:
            token = self._operator()
            right = self.parse(binding + 1)
            rest.append((grammar.ARITHMETIC[token.text], right.run, token.position))
            deepest = max(deepest, right, key=lambda node: node.depth)
        return self._node(nodes.chain(left.run, rest, self.source), deepest)

    def _operator(self) -> Token:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            raise self.problem(f"an expression of more than {MAX_OPERATORS:,} operators and filters")
        return self.advance()

    def _node(self, run: Run, *inside: Node) -> Node:
        depth = 1 + max((node.depth for node in inside), default=0)
        if depth > MAX_NESTING:
            raise self.problem(f"an expression nested deeper than {MAX_NESTING}")
        return Node(run, depth)

    def _decision(self, left: Node, word: str, binding: int) -> Node:
        parts = [left]
        while self.at(word):
            self._operator()
            parts.append(self.parse(binding + 1))
        return self._node(nodes.decided([part.run for part in parts], stop=word == "or"), *parts)

    def _comparison(self, left: Node, word: str) -> Node:
        self._operator()
        if word == "not in":
            self.advance()
        right = self.parse(grammar.COMPARISON + 1)
        if self._infix_word() in grammar.COMPARISONS:
            raise self.problem("comparisons cannot be chained; join two of them with 'and'")
        if word in ("==", "!=", "<>") and (left.special or right.special):
            special, other = (right.special, left) if right.special else (left.special, right)
            return self._node(nodes.compared_with_special(other, special, word != "=="), left, right)
        if word in ("in", "not in", "contains"):
            needle, holder = (right, left) if word == "contains" else (left, right)
            run = nodes.contained(needle.run, holder.run, operators.within, word == "not in")
            return self._node(run, left, right)
        return self._node(nodes.compared(left.run, right.run, grammar.COMPARISONS[word]), left, right)

    def _choice(self, then: Node) -> Node:
        self._operator()
        condition = self.parse(grammar.OR)
        self.expect("else", "after 'a if condition'")
        otherwise = self.parse()
        return self._node(nodes.choice(condition.run, then.run, otherwise.run), then, condition, otherwise)

    def _filters(self, left: Node) -> Node:
        links: list[nodes.Link] = []
        inside = [left]
        while self.at("|"):
            self._operator()
            token = self.advance()
            if token.kind != "name":
                raise self.problem(f"the name of a filter is missing after '|'; {self._came(token)}", token.position)
            entry = FILTERS.get(token.text)
            if entry is None:
                raise self.problem(f"no filter {token.text!r}{did_you_mean(token.text, FILTERS)}", token.position)
            arguments, named = self._arguments(entry)
            self._check_count(entry, len(arguments), token)
            runs = {name: argument.run for name, argument in named.items()}
            links.append(nodes.link(entry, [part.run for part in arguments], runs, self.source, token.position))
            inside += [*arguments, *named.values()]
        return self._node(nodes.piped(left.run, links), *inside)

    def _arguments(self, entry: Filter) -> tuple[list[Node], dict[str, Node]]:
        arguments: list[Node] = []
        named: dict[str, Node] = {}
        closed = self.accept("(")
        if not closed and not self.accept(":"):
            return arguments, named
        while not (closed and self.at(")")):
            name = self.token
            if name.kind == "name" and self.tokens[self.index + 1].text == ":":
                self.index += 2
                if name.text not in _named_arguments(entry):
                    raise self.problem(f"filter {entry.name!r} has no argument {name.text!r}", name.position)
                named[name.text] = self.parse() if closed else self.operand()
            else:
                arguments.append(self.parse() if closed else self.operand())
            if not self.accept(","):
                break
        if closed:
            self.expect(")", f"after the arguments of {entry.name!r}")
        return arguments, named

    def _check_count(self, entry: Filter, count: int, token: Token) -> None:
        if entry.least <= count <= entry.most:
            return
        wanted = str(entry.least) if entry.least == entry.most else f"{entry.least} to {entry.most}"
        noun = "argument" if wanted == "1" else "arguments"
        raise self.problem(f"filter {entry.name!r} takes {wanted} {noun}, {count} came", token.position)

    def _prefix(self) -> Node:
        token = self.token
        if token.kind in ("number", "text"):
            self.advance()
            return self._steps(Node(nodes.constant(token.value)), token)
        if token.kind == "name":
            return self._word(token)
        match token.text:
            case "(":
                return self._group()
            case "[":
                return self._list()
            case "{":
                return self._object()
            case "-":
                self._operator()
                operand = self.parse(grammar.SIGN)
                return self._node(nodes.unary(operators.negate, operand.run, self.source, token.position), operand)
        raise self.problem(f"a value is missing here; {self._came()}")

    def _came(self, token: Token | None = None) -> str:
        token = token or self.token
        return "the expression ends" if token.kind == "end" else f"{token.text!r} came"

    def _word(self, token: Token) -> Node:
        following = self.tokens[self.index + 1]
        rooted = following.position == token.end and following.text == "."
        if not rooted:
            if token.text == "not":
                self._operator()
                operand = self.parse(grammar.NOT)
                return self._node(nodes.opposite(operand.run), operand)
            if token.text in grammar.LITERALS:
                self.advance()
                return Node(nodes.constant(grammar.LITERALS[token.text]), special=grammar.SPECIALS.get(token.text, ""))
            if token.text in grammar.OPERATOR_WORDS:
                raise self.problem(f"a value is missing here; {self._came()}")
        self.advance()
        return self._path(token)

    def _path(self, token: Token) -> Node:
        segments: list[Segment] = []
        ends = [token.end]
        computed: dict[int, Node] = {}
        while (step := self._step()) is not None:
            if isinstance(step, Node):
                computed[len(segments)] = step
                segments.append(None)
            else:
                segments.append(step)
            ends.append(self.tokens[self.index - 1].end)
            if len(segments) > MAX_DEPTH:
                raise self.problem(f"a path of more than {MAX_DEPTH} steps", token.position)
        if self.at("(") and self.token.position == ends[-1]:
            raise self.problem("nothing can be called; a filter stands after '|'")
        text = self.source[token.position : ends[-1]]
        path = Path(token.text, tuple(segments), token.position, text, self.source, tuple(ends))
        self.paths.append(path)
        return self._node(getter(path, {number: node.run for number, node in computed.items()}), *computed.values())

    def _step(self) -> Segment | Node:
        """Read ``.name``, ``.0``, ``["key"]``, ``[0]`` or ``[expression]``; None where none stands."""
        if self.accept("."):
            token = self.advance()
            if token.kind != "key":
                raise self.problem(f"a name is missing after '.'; {self._came(token)}", token.position)
            plain = token.text.isascii() and token.text.isdigit() and len(token.text) < 10
            return int(token.text) if plain and str(int(token.text)) == token.text else token.text
        if not self.accept("["):
            return None
        start = self.index
        node = self.parse()
        self.expect("]", "after a key or an index")
        return self._fixed(start, self.index - 1, node)

    def _fixed(self, start: int, end: int, node: Node) -> Segment | Node:
        """Give the key or index that the tokens between brackets are, where nothing has to be computed."""
        inside = self.tokens[start:end]
        last = inside[-1]
        if len(inside) == 1 and last.kind == "text":
            return str(last.value)
        if last.kind == "number" and isinstance(last.value, int):
            if len(inside) == 1:
                return last.value
            if len(inside) == 2 and inside[0].text == "-":
                return -last.value
        return node

    def _steps(self, node: Node, token: Token) -> Node:
        """Read the steps into something that is no path: ``(x | first).name``."""
        keys: list[Run] = []
        inside = [node]
        while (step := self._step()) is not None:
            if isinstance(step, Node):
                inside.append(step)
            keys.append(step.run if isinstance(step, Node) else nodes.constant(step))
        if not keys:
            return node
        text = self.source[token.position : self.tokens[self.index - 1].end]
        missing = Missing(text, source=self.source, position=token.position)
        return self._node(nodes.access(node.run, keys, missing), *inside)

    def _group(self) -> Node:
        opening = self.advance()
        node = self.parse()
        if self.accept(".."):
            end = self.parse()
            run = nodes.range_of(node.run, end.run, self.source, opening.position)
            node = self._node(run, node, end)
        self.expect(")", "after what '(' opened")
        return self._steps(Node(node.run, node.depth), opening)

    def _list(self) -> Node:
        opening = self.advance()
        parts: list[Node] = []
        while not self.at("]"):
            parts.append(self.parse())
            if not self.accept(","):
                break
        self.expect("]", "after the items of a list")
        return self._steps(self._node(nodes.list_of([part.run for part in parts]), *parts), opening)

    def _object(self) -> Node:
        opening = self.advance()
        parts: dict[str, Node] = {}
        while not self.at("}"):
            key = self.advance()
            if key.kind != "text":
                raise self.problem(f"a key in quotes is missing here; {self._came(key)}", key.position)
            if str(key.value) in parts:
                raise self.problem(f"the key {str(key.value)!r} stands twice in one object", key.position)
            self.expect(":", "after a key")
            parts[str(key.value)] = self.parse()
            if not self.accept(","):
                break
        self.expect("}", "after the pairs of an object")
        runs = {key: part.run for key, part in parts.items()}
        return self._steps(self._node(nodes.object_of(runs), *parts.values()), opening)


def _named_arguments(entry: Filter) -> set[str]:
    """The arguments that are given by name: those of its function past the ones that stand in order."""
    parameters = list(inspect.signature(entry.function).parameters.values())
    behind = {parameter.name for parameter in parameters[entry.most + 1 :]}
    return behind | {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
