"""Four frameworks with scripted models through the SDK's adapters, in the adapters' environment.

Argument: the collector's address. Prints one JSON object: what the model was given for each framework.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import misstep_sdk as misstep
from misstep_sdk import errors


def read_file(path: str) -> str:
    """Reads a file."""
    if path == "secret":
        raise errors.ToolPermissionError("the user said no")
    if path == "gone":
        raise errors.FileNotFoundError(path)
    return "text"


PATHS = ("a", "gone", "secret")


async def with_pydantic_ai() -> list[Any]:
    from misstep_sdk.adapters.pydantic_ai import RecordedToolset
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai.toolsets import FunctionToolset

    given: list[Any] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        given.extend(part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart))
        if len(given) == len(PATHS):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("read_file", {"path": PATHS[len(given)]})])

    toolset = RecordedToolset(FunctionToolset([read_file]))
    await Agent(FunctionModel(model), toolsets=[toolset]).run("go")
    return given


async def with_openai_agents() -> list[Any]:
    from agents import RunContextWrapper
    from agents.tool_context import ToolContext
    from misstep_sdk.adapters.openai_agents import function_tool

    tool = function_tool(read_file)
    return [
        await tool.on_invoke_tool(
            ToolContext(
                context=None,
                usage=RunContextWrapper(None).usage,
                tool_name=tool.name,
                tool_call_id=f"call_{path}",
                tool_arguments=json.dumps({"path": path}),
            ),
            json.dumps({"path": path}),
        )
        for path in PATHS
    ]


async def with_langchain() -> list[Any]:
    from langchain_core.tools import StructuredTool
    from misstep_sdk.adapters.langchain import Recording, answer

    tool = StructuredTool.from_function(read_file)
    given: list[Any] = []
    for path in PATHS:
        try:
            given.append(tool.invoke({"path": path}, config={"callbacks": [Recording()]}))
        except Exception as error:
            given.append(answer(error))
    return given


async def with_mcp() -> list[Any]:
    from mcp import Client
    from mcp.server.mcpserver import MCPServer
    from misstep_sdk.adapters.mcp import recorded

    server = MCPServer("files")
    server.tool()(recorded(read_file))
    given: list[Any] = []
    async with Client(server) as client:
        for path in PATHS:
            result = await client.call_tool("read_file", {"path": path})
            given.append([result.is_error, result.content[0].text])  # type: ignore[union-attr]
    return given


async def main(url: str) -> None:
    provider = misstep.configure("adapters", endpoint=url)
    found = {}
    for run in (with_pydantic_ai, with_openai_agents, with_langchain, with_mcp):
        name = run.__name__.removeprefix("with_")
        with misstep.session(name, agent=name):
            found[name] = await run()
    provider.shutdown()
    print(json.dumps(found))


asyncio.run(main(sys.argv[1]))
