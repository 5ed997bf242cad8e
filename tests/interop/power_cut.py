"""Power cuts on a real file system: what a client was answered is on the disk.

A store lies on an ext4 image that is mounted through a loop device. A copy of the image file has
what the file system has written and none of what is only in memory, as a disk has after a power
cut. Needs root and a kernel that mounts images; says so and does nothing elsewhere.
"""

import filecmp
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

BINARY = sys.argv[1]
FOLDER = pathlib.Path(os.environ["INTEROP_DIR"])
SIZE = 24 * 1024 * 1024
PROMPTS = 6


class Mounted:
    """An image, mounted at a folder of its own."""

    def __init__(self, image):
        self.image = image
        self.folder = image.with_suffix(".mnt")

    def __enter__(self):
        self.folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "-o", "loop", self.image, self.folder], check=True)
        return self.folder / "store"

    def __exit__(self, *_):
        subprocess.run(["umount", self.folder], check=True)


class Agent:
    """rejoin on a store, asked one thing after the other."""

    def __init__(self, store, durability):
        command = [BINARY, "serve", "--store", store, "--durability", durability]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.id = 0
        self.ask("initialize", {"protocolVersion": 1})

    def ask(self, method, params):
        """The response, and the updates before it."""
        self.id += 1
        request = {"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        updates = []
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.id:
                return message, updates
            updates.append(message["params"]["update"])
        raise AssertionError(f"no response to {method}")

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def cut(agent, image, copy):
    """What is on the disk now. Two copies that are equal were made while nothing was written."""
    agent.process.send_signal(signal.SIGSTOP)
    other = copy.with_suffix(".other")
    shutil.copyfile(image, copy)
    shutil.copyfile(image, other)
    while not filecmp.cmp(copy, other, shallow=False):
        copy, other = other, copy
        shutil.copyfile(image, other)
    agent.process.send_signal(signal.SIGCONT)
    return copy


def prompts(updates):
    """The user's words in a replay."""
    chunks = [update for update in updates if update["sessionUpdate"] == "user_message_chunk"]
    return [chunk["content"]["text"] for chunk in chunks]


def check(copy, session, durability, asked):
    """After the cut, the session has what was answered, and goes on."""
    with Mounted(copy) as store:
        verified = subprocess.run([BINARY, "sessions", "verify", "--store", store], text=True, capture_output=True)
        agent = Agent(store, durability)
        loaded, updates = agent.ask("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        found = prompts(updates)
        if durability == "os":
            # Anything may be missing, but nothing is damage, and nothing is made up.
            assert verified.returncode == 0 or "there is no store" in verified.stderr, verified
            assert found == asked[: len(found)], found
        else:
            assert verified.returncode == 0, verified
            assert "result" in loaded, loaded
            assert found == asked, (found, asked)
            answer, _ = agent.ask("session/prompt", prompt(session, "/echo on"))
            assert answer["result"]["stopReason"] == "end_turn", answer
        agent.end()
    copy.unlink()


def prompt(session, text):
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def can_mount(image):
    try:
        with open(image, "wb") as file:
            file.truncate(SIZE)
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)
        with Mounted(image):
            return os.geteuid() == 0
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: no image can be mounted here: {error}")
        return False


def main():
    cuts = 0
    for durability in ("turn", "each", "os"):
        image = FOLDER / f"{durability}.img"
        if not can_mount(image):
            return
        with Mounted(image) as store:
            agent = Agent(store, durability)
            made, _ = agent.ask("session/new", {"cwd": "/", "mcpServers": []})
            session = made["result"]["sessionId"]
            asked, copies = [], [(cut(agent, image, FOLDER / f"{durability}-0.cut"), [])]
            for number in range(1, PROMPTS + 1):
                text = f"/echo {number} {'word ' * 2000}"
                answer, _ = agent.ask("session/prompt", prompt(session, text))
                assert answer["result"]["stopReason"] == "end_turn", answer
                asked.append(text)
                copy = cut(agent, image, FOLDER / f"{durability}-{number}.cut")
                copies.append((copy, list(asked)))
            agent.end()
        for copy, said in copies:
            check(copy, session, durability, said)
            cuts += 1
    print(f"ok - {cuts} power cuts")


main()
