"""LangChain: `config={"callbacks": [Recording()]}`, and `ToolNode(tools, handle_tool_errors=answer)` in LangGraph."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

import misstep_sdk as misstep
from misstep_sdk import errors


class Recording(BaseCallbackHandler):
    """Records each tool call that LangChain reports."""

    def __init__(self) -> None:
        self._calls: dict[UUID, misstep.ToolCall] = {}

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """A call begins."""
        name = str((serialized or {}).get("name") or more.get("name") or "tool")
        call = misstep.tool_call(name, inputs or {"input": input_str}, call_id=more.get("tool_call_id"))
        call.begin(inside=False)
        self._calls[run_id] = call

    def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        """It returned; a ToolMessage says whether with an error."""
        if call := self._calls.pop(run_id, None):
            if getattr(output, "status", None) == "error":
                call.failed(errors.ToolExecutionError(str(output.content), tool=call.tool))
            call.end()

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """It raised."""
        if call := self._calls.pop(run_id, None):
            call.end(error)


def answer(error: Exception) -> str:
    """What the model gets for an error, as JSON; a fatal one is raised."""
    return json.dumps(misstep.answer(error))
