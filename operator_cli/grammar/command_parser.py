"""The parser of commands: argparse with suggestions, and the usage of the sub-command in each error."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from operator_cli.errors import USAGE
from operator_cli.grammar.synonyms import VERB_SYNONYMS, find_synonyms
from operator_cli.suggestions import join_suggestions, suggest

_MAX_LISTED_VERBS = 30
_NOUNS = {"COMMAND": "command", "VERB": "verb", "ACTION": "action"}


class CommandParser(argparse.ArgumentParser):
    """The parser of a command. argparse uses the same class for the parsers of its verbs."""

    usage_status = USAGE
    verbs_take_numbers = False
    """True if each verb takes a number: the error for a number instead of a verb then shows the correct form."""
    default_verb: str | None = None
    """The default verb."""

    def __init__(self, *args: Any, **options: Any) -> None:
        # An abbreviated flag would change its meaning when a flag with the same beginning is added.
        super().__init__(*args, **{"allow_abbrev": False, **options})
        self._is_intermixed = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse all arguments. Report unknown ones here, because argparse would report them with the usage of
        `pharos`."""
        words = sys.argv[1:] if args is None else list(args)
        if self.default_verb is not None and self._lacks_verb(words):
            words.insert(0, self.default_verb)
        if not words and not self._is_intermixed and (verbs := self.verbs()) is not None:
            self.print_help(sys.stderr)
            self.exit(
                self.usage_status,
                f"\n{self.prog}: error: the following arguments are required: {verbs.metavar}\n",
            )
        parsed, unknown = super().parse_known_args(words, namespace)
        if not unknown or self._is_intermixed:
            return parsed, unknown
        if (intermixed := self._parse_intermixed(words, unknown)) is not None:
            return intermixed, []
        self.error(self._describe_unknown(unknown))

    def _lacks_verb(self, words: Sequence[str]) -> bool:
        """Return True if the words are flags of a verb that is left out."""
        return not words or (words[0].startswith("-") and words[0] not in self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.usage_status, f"{self.prog}: error: {message}\nFor help: {self.prog} --help\n")

    def verbs(self) -> "argparse._SubParsersAction[CommandParser] | None":
        """Return the action with the parsers of the verbs; None for a parser without verbs."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return action
        return None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise `ArgumentError` with a suggestion for a value that is not one of the choices."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if (
            isinstance(action, argparse._SubParsersAction)
            and str(value).isdecimal()
            and self.verbs_take_numbers
        ):
            meant = " or ".join(f"`{self.prog} {choice} {value}`" for choice in choices)
            raise argparse.ArgumentError(None, f"say what {value} is the number of: {meant}")
        suggestion = self._suggest(action, str(value), choices)
        if isinstance(action, argparse._SubParsersAction) and action.metavar in _NOUNS:
            noun = _NOUNS[str(action.metavar)]
            listed = (
                ""
                if suggestion or len(choices) > _MAX_LISTED_VERBS
                else f" Choose from: {', '.join(choices)}."
            )
            raise argparse.ArgumentError(None, f"there is no {noun} {str(value)!r}.{suggestion or listed}")
        raise argparse.ArgumentError(
            action, f"invalid choice: {str(value)!r} (choose from {', '.join(choices)}).{suggestion}"
        )

    def _suggest(self, action: argparse.Action, value: str, choices: Sequence[str]) -> str:
        """Return the suggestion for a value that is not one of the choices."""
        if isinstance(action, argparse._SubParsersAction):
            synonyms = find_synonyms(value, VERB_SYNONYMS, choices)
            # The nearest word comes first.
            return join_suggestions(synonyms[:1]) or suggest(value, choices)
        return suggest(value, choices)

    def _parse_intermixed(self, words: Sequence[str], unknown: Sequence[str]) -> argparse.Namespace | None:
        """Return the arguments if flags are between the values of one argument (`set A=1 --quiet B=2`), which argparse
        accepts only in its intermixed mode; None if words are left over for another reason."""
        has_words_only = not any(word.startswith("-") for word in unknown) and "--" not in words
        nargs = {action.nargs for action in self._get_positional_actions()}
        if not has_words_only or nargs & {argparse.PARSER, argparse.REMAINDER}:
            return None
        self._is_intermixed = True
        try:
            parsed, left_over = super().parse_known_intermixed_args(words)
        finally:
            self._is_intermixed = False
        return None if left_over else parsed

    def _describe_unknown(self, unknown: Sequence[str]) -> str:
        flag = next((word for word in unknown if word.startswith("-") and word != "-"), "").partition("=")[0]
        suggestion = suggest(flag, list(self._option_string_actions)) if flag else ""
        return f"unrecognized arguments: {' '.join(unknown)}{'.' if suggestion else ''}{suggestion}"
