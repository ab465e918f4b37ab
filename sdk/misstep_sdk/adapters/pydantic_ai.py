"""pydantic-ai: `Agent(..., toolsets=[RecordedToolset(toolset)])`."""

from __future__ import annotations

from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

import misstep_sdk as misstep


class RecordedToolset(WrapperToolset[AgentDepsT]):
    """Records each call of the toolset inside; the model gets errors that are not fatal as results."""

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Calls the tool; ModelRetry goes on, as the framework counts it."""
        call = misstep.tool_call(name, tool_args, call_id=ctx.tool_call_id)
        call.begin()
        try:
            result = call.returned(await super().call_tool(name, tool_args, ctx, tool))
        except (ApprovalRequired, CallDeferred):
            call.drop()
            raise
        except BaseException as exception:
            call.end(exception)
            if isinstance(exception, ModelRetry) or not isinstance(exception, Exception):
                raise
            return misstep.answer(exception, name)
        call.end()
        return result
