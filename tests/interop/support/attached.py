"""The Python SDK's client of a session that others have, too.

Its arguments are the session's id and the command that starts the agent. It loads the session and
prints `loaded`. Each line of its input is `prompt WORDS`, answered with the stop reason, or `agent WORDS`
or `user WORDS`, answered with `seen` once these words are in the conversation. At the end of its input it
prints all words of the conversation, as JSON.
"""

import asyncio
import json
import os
import sys

import acp
from acp.schema import AgentMessageChunk, UserMessageChunk

SESSION, *COMMAND = sys.argv[1:]
ROLES = {AgentMessageChunk: "agent", UserMessageChunk: "user"}


class Client:
    def __init__(self):
        self.words = {"agent": "", "user": ""}
        self.arrived = asyncio.Condition()

    def on_connect(self, conn):
        pass

    async def session_update(self, session_id, update, **_):
        role = ROLES.get(type(update))
        if role and session_id == SESSION:
            async with self.arrived:
                self.words[role] += getattr(update.content, "text", "")
                self.arrived.notify_all()

    async def request_permission(self, session_id, tool_call, options, **_):
        return {"outcome": {"outcome": "selected", "optionId": options[0].option_id}}

    async def wait_for(self, role, words):
        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(lambda: words in self.words[role]), 20)


def say(line):
    print(line, flush=True)


async def main():
    client = Client()
    async with acp.spawn_agent_process(client, *COMMAND, env=dict(os.environ)) as (agent, _):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        await agent.load_session(cwd=os.getcwd(), session_id=SESSION, mcp_servers=[])
        say("loaded")
        while line := (await asyncio.to_thread(sys.stdin.readline)).rstrip("\n"):
            verb, _, words = line.partition(" ")
            if verb == "prompt":
                response = await agent.prompt(session_id=SESSION, prompt=[acp.text_block(words)])
                say(response.stop_reason)
            else:
                await client.wait_for(verb, words)
                say("seen")
        say(json.dumps(client.words))


asyncio.run(main())
