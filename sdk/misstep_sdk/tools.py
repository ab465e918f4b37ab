"""A decorator for tools: records each call, and gives the model an answer where an error need not stop the
conversation.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, TypeVar, cast, overload

from misstep_sdk.convert import as_agent_error
from misstep_sdk.record import Recorder, ToolCall
from misstep_sdk.sessions import refuse_generator

Function = TypeVar("Function", bound=Callable[..., Any])


class Tools:
    """The decorator with a recorder of its own."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    @overload
    def __call__(self, function: Function, /) -> Function: ...

    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        target: str | None = None,
        mcp_server: str | None = None,
        answer_errors: bool = False,
    ) -> Callable[[Function], Function]: ...

    def __call__(
        self,
        function: Function | None = None,
        /,
        *,
        name: str | None = None,
        target: str | None = None,
        mcp_server: str | None = None,
        answer_errors: bool = False,
    ) -> Any:
        """Records each call of a function, a coroutine function or a generator of either kind, under its name or
        `name`.

        `target` is the parameter that says what a call acts on. With `answer_errors` an exception that need not stop
        the conversation is not raised: the function returns its `to_llm_payload()`; fatal ones are raised as
        AgentError. A generator returns nothing to its caller: with `answer_errors` it is a TypeError.
        """

        def decorate(function: Function) -> Function:
            recorded = _recorded(function, _Begins(self.recorder, function, name, target, mcp_server))
            return answering(recorded) if answer_errors else recorded

        return decorate if function is None else decorate(function)


class _Begins:
    """Makes the record of one call from its arguments."""

    def __init__(
        self,
        recorder: Recorder,
        function: Callable[..., Any],
        name: str | None,
        target: str | None,
        mcp_server: str | None,
    ) -> None:
        self.recorder = recorder
        self.name = name or function.__name__
        self.names = list(inspect.signature(function).parameters)
        self.target = target
        self.mcp_server = mcp_server
        if target and target not in self.names:
            raise TypeError(f"{self.name} has no parameter {target!r} to be its target; it has {', '.join(self.names)}")

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ToolCall:
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        given.pop("self", None)
        return self.recorder.tool_call(self.name, given, target=self._target(given), mcp_server=self.mcp_server)

    def _target(self, given: dict[str, Any]) -> str | None:
        acted_on = given.get(self.target) if self.target else None
        try:
            return None if acted_on is None else str(acted_on)
        except Exception:  # an argument that has no text is no reason not to make the call
            return None


def _recorded(function: Function, begins: _Begins) -> Function:
    """The function of the same kind around it."""
    if inspect.isasyncgenfunction(function):
        around: Any = _async_generator(function, begins)
    elif inspect.isgeneratorfunction(function):
        around = _generator(function, begins)
    elif inspect.iscoroutinefunction(function):
        around = _coroutine(function, begins)
    else:
        around = _plain(function, begins)
    return cast(Function, functools.wraps(function)(around))


def _plain(function: Callable[..., Any], begins: _Begins) -> Callable[..., Any]:
    def around(*args: Any, **kwargs: Any) -> Any:
        with begins(args, kwargs) as call:
            return call.returned(function(*args, **kwargs))

    return around


def _coroutine(function: Callable[..., Any], begins: _Begins) -> Callable[..., Any]:
    async def around(*args: Any, **kwargs: Any) -> Any:
        with begins(args, kwargs) as call:
            return call.returned(await function(*args, **kwargs))

    return around


def _generator(function: Callable[..., Any], begins: _Begins) -> Callable[..., Any]:
    def around(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = begins(args, kwargs)
        call.begin(inside=False)  # between two items other code runs, which is not inside the call
        try:
            result: Any = yield from function(*args, **kwargs)
        except BaseException as exception:
            call.end(exception)
            raise
        call.returned(result)
        call.end()
        return result

    return around


def _async_generator(function: Callable[..., Any], begins: _Begins) -> Callable[..., Any]:
    async def around(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        call = begins(args, kwargs)
        call.begin(inside=False)
        try:
            async for each in function(*args, **kwargs):
                yield each
        except BaseException as exception:
            call.end(exception)
            raise
        call.end()

    return around


def answering(function: Function) -> Function:
    """The function with errors as results: its `to_llm_payload()` of what is not fatal; what is fatal is raised."""
    refuse_generator(function, "answered for")

    @functools.wraps(function)
    def answers(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as exception:
            return answer(exception, function.__name__)

    @functools.wraps(function)
    async def answers_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except Exception as exception:
            return answer(exception, function.__name__)

    return answers_async if inspect.iscoroutinefunction(function) else answers  # type: ignore[return-value]


def answer(exception: Exception, tool: str | None = None) -> dict[str, Any]:
    """What the model gets for an exception: the error's `to_llm_payload()`; a fatal one is raised as AgentError."""
    error = as_agent_error(exception, tool=tool)
    if error.fatal:
        raise error from exception
    return error.to_llm_payload()
