"""An MCP server on stdio whose tools are recorded; a client gets what went wrong and what to do.

pip install ./sdk 'mcp>=2.3'
python examples/mcp_server.py [COLLECTOR]
"""

from __future__ import annotations

import sys

import misstep_sdk as misstep
from mcp.server.mcpserver import MCPServer
from misstep_sdk import errors
from misstep_sdk.adapters.mcp import recorded

server = MCPServer("orders")
ORDERS = {"SO-1": "shipped", "SO-2": "paid"}


@server.tool()
@recorded
def order_status(order: str) -> str:
    """The state of an order, such as SO-1."""
    if order not in ORDERS:
        raise errors.ResourceNotFoundError(order, recommendations=["List the orders", "Check the number's spelling"])
    return ORDERS[order]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        misstep.configure("orders-server", endpoint=sys.argv[1])
    server.run()
