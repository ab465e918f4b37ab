"""OpenAI Agents SDK: `Agent(..., tools=[function_tool(read_file)])`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import agents
from agents.tool_context import ToolContext

import misstep_sdk as misstep


def function_tool(function: Callable[..., Any], **options: Any) -> agents.FunctionTool:
    """As `agents.function_tool`, recorded; the model gets errors that are not fatal as results, as JSON."""
    made = agents.function_tool(function, failure_error_function=None, **options)

    async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
        try:
            async with misstep.tool_call(made.name, _read(arguments), call_id=ctx.tool_call_id) as call:
                return call.returned(await made.on_invoke_tool(ctx, arguments))
        except Exception as exception:
            return json.dumps(misstep.answer(exception, made.name))

    return replace(made, on_invoke_tool=invoke)


def _read(arguments: str) -> dict[str, Any]:
    """The arguments, or their text where the model wrote no object; the tool itself says what is wrong with them."""
    try:
        read = json.loads(arguments or "{}")
    except ValueError:
        read = arguments
    return read if isinstance(read, dict) else {"arguments": read}
