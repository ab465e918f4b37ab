"""MCP servers: `@server.tool()` above `@recorded`."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

from mcp.server.mcpserver.exceptions import ToolError

import misstep_sdk as misstep

Function = TypeVar("Function", bound=Callable[..., Any])


def recorded(function: Function) -> Function:
    """The tool, recorded; the client gets an error's `to_llm_payload()` as JSON, in a result with `isError`."""
    called = misstep.tool(function)

    @functools.wraps(function)
    async def answers(*args: Any, **kwargs: Any) -> Any:
        try:
            result = called(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        except Exception as exception:
            error = misstep.as_agent_error(exception, tool=function.__name__)
            raise ToolError(json.dumps(error.to_llm_payload())) from exception

    return cast(Function, answers)
