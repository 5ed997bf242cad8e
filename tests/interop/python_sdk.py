"""The Python SDK: a conversation is killed in mid-answer and goes on in a new process."""

import asyncio
import glob
import os
import pathlib
import signal
import sys
import traceback

import acp
from acp.schema import AgentMessageChunk, UserMessageChunk

BINARY = sys.argv[1]
CWD = os.getcwd()
# As in support/command.mjs.
WRAP = []
if "INTEROP_WRAPPED" in os.environ:
    WRAP = ["wrap", "--", BINARY, "--store", os.path.join(os.environ["INTEROP_DIR"], "inner")]
# The SDK's own limit for agents is the same; spawning has a smaller one.
LINE_LIMIT = 50 * 1024 * 1024


class Client:
    """Keeps every update that the SDK delivers."""

    def __init__(self):
        self.updates = []
        self.arrived = asyncio.Condition()

    def on_connect(self, conn):
        pass

    async def session_update(self, session_id, update, **_):
        async with self.arrived:
            self.updates.append(update)
            self.arrived.notify_all()

    async def request_permission(self, session_id, tool_call, options, **_):
        return {"outcome": {"outcome": "selected", "optionId": options[0].option_id}}

    def text(self, kind, since=0):
        chunks = (update for update in self.updates[since:] if isinstance(update, kind))
        return "".join(getattr(chunk.content, "text", "") for chunk in chunks)

    async def wait_for(self, count, kind, since):
        def enough():
            return sum(isinstance(update, kind) for update in self.updates[since:]) >= count

        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(enough), 20)


def rejoin(client):
    # Without arguments: stdin is no terminal, so it serves. The SDK trims the environment unless
    # it is given one.
    return acp.spawn_agent_process(
        client, BINARY, *WRAP, env=dict(os.environ), transport_kwargs={"limit": LINE_LIMIT, "stderr": None}
    )


def kill(process):
    """Kills the agent with the one that it is wrapped around: its children."""
    lists = glob.glob(f"/proc/{process.pid}/task/*/children")
    children = [int(pid) for name in lists for pid in pathlib.Path(name).read_text().split()]
    for pid in [process.pid, *children]:
        os.kill(pid, signal.SIGKILL)


async def say(agent, session_id, words):
    response = await agent.prompt(session_id=session_id, prompt=[acp.text_block(words)])
    return response.stop_reason


async def step(name, body):
    try:
        result = await asyncio.wait_for(body, 60)
    except Exception:
        print(f"not ok - {name}")
        traceback.print_exc(file=sys.stdout)
        sys.exit(1)
    print(f"ok - {name}")
    return result


async def talk_and_kill():
    client = Client()
    async with rejoin(client) as (agent, process):
        hello = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert hello.protocol_version == acp.PROTOCOL_VERSION, hello
        assert hello.agent_capabilities.load_session is True, hello
        session = await agent.new_session(cwd=CWD, mcp_servers=[])
        assert await say(agent, session.session_id, "hello from python") == "end_turn"
        answer = client.text(AgentMessageChunk)
        assert answer, "the agent said nothing"

        before = len(client.updates)
        slow = asyncio.create_task(say(agent, session.session_id, "/slow 30"))
        await client.wait_for(2, AgentMessageChunk, before)
        kill(process)
        await process.wait()
        await asyncio.wait([slow], timeout=10)
        assert slow.done() and slow.exception() is not None, "the prompt should have failed"
        partial = client.text(AgentMessageChunk, before)
    return session.session_id, answer, partial


async def load_and_go_on(session_id, answer, partial):
    client = Client()
    async with rejoin(client) as (agent, process):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        loaded = await agent.load_session(cwd=CWD, session_id=session_id, mcp_servers=[])
        assert loaded is not None
        # The SDK hands updates out in tasks of their own: those it has read must arrive first.
        await client.wait_for(2, UserMessageChunk, 0)
        await client.wait_for(2, AgentMessageChunk, 0)
        assert client.text(UserMessageChunk) == "hello from python/slow 30", client.updates
        replayed = client.text(AgentMessageChunk)
        assert replayed.startswith(answer + partial), (replayed, answer, partial)

        before = len(client.updates)
        assert await say(agent, session_id, "/recall 2") == "end_turn"
        quoted = client.text(AgentMessageChunk, before)
        assert "hello from python" in quoted, quoted
        listed = await agent.list_sessions()
        assert [entry.session_id for entry in listed.sessions] == [session_id], listed
    assert process.returncode == 0, process.returncode


async def main():
    seen = await step("a turn, then killed in the middle of the next", talk_and_kill())
    await step("loaded in a new process, with its history and context", load_and_go_on(*seen))


asyncio.run(main())
