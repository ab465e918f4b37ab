"""An agent with a scripted model that makes mistakes and repairs them, recorded by misstep-sdk.

    python examples/agent_loop.py                           nothing is sent
    python examples/agent_loop.py http://127.0.0.1:4318     its calls are on the dashboard, session demo-loop

The model asks for a file that is not there, edits with a text that does not match, twice, reads again, and repairs it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import misstep_sdk as misstep
from misstep_sdk import errors

WORK = Path(tempfile.mkdtemp())


@misstep.tool(target="path", answer_errors=True)
def read_file(path: str) -> str:
    """The file's text. An OSError becomes the taxonomy's class by itself."""
    return (WORK / path).read_text()


@misstep.tool(target="path", answer_errors=True)
def edit_file(path: str, old: str, new: str) -> str:
    """Replaces a text that must be there once."""
    text = (WORK / path).read_text()
    if text.count(old) != 1:
        kind = errors.DuplicateMatchError if old in text else errors.ContentNotFoundError
        raise kind(f"{old!r} is {text.count(old)} times in {path}", target=path)
    (WORK / path).write_text(text.replace(old, new))
    return "edited"


TOOLS = {"read_file": read_file, "edit_file": edit_file}
SCRIPT = [
    ("read_file", {"path": "src/price.py"}),
    ("read_file", {"path": "price.py"}),
    ("edit_file", {"path": "price.py", "old": "rate = 7", "new": "rate = 19"}),
    ("edit_file", {"path": "price.py", "old": "rate= 0.07", "new": "rate = 0.19"}),
    ("read_file", {"path": "price.py"}),
    ("edit_file", {"path": "price.py", "old": "rate = 0.07", "new": "rate = 0.19"}),
]


def model(step: int) -> Iterator[dict[str, Any]]:
    """The chunks of one answer, in the shape of a provider's library."""
    name, arguments = SCRIPT[step]
    yield {"choices": [{"delta": {"tool_calls": [{"name": name, "arguments": arguments}]}, "finish_reason": None}]}
    yield {
        "choices": [{"delta": {}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 40},
    }


def main() -> None:
    """One session: each step asks the model and makes the call that it asks for."""
    provider = misstep.configure("agent-loop", endpoint=sys.argv[1]) if len(sys.argv) > 1 else None
    (WORK / "price.py").write_text("rate = 0.07\n")
    tracker = misstep.MistakeTracker(on_limit=lambda limit: print(f"{limit.count} mistakes in a row: ask the person"))
    with misstep.session("demo-loop", agent="pricer", tracker=tracker):
        for step in range(len(SCRIPT)):
            first, *_ = misstep.model_stream(model(step), "scripted-1", provider="example")
            call = first["choices"][0]["delta"]["tool_calls"][0]
            result = TOOLS[call["name"]](**call["arguments"])
            print(call["name"], call["arguments"], "->", result)
    if provider:
        provider.shutdown()


if __name__ == "__main__":
    main()
