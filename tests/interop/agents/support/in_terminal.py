"""Runs a command in a pseudo-terminal until it has shown a text: in_terminal.py SECONDS TEXT COMMAND...

Answers what programs ask terminals, and presses Enter now and then, since some ask whether the folder
is trusted. Prints what was shown, without escape sequences, and fails if the text is not in it.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

SEQUENCE = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[P_^X][^\x1b]*\x1b\\|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")
ANSWERS = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62c",
    b"\x1b[0c": b"\x1b[?62c",
    b"\x1b[?u": b"\x1b[?0u",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
}


def main():
    seconds, wanted, command = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 120, 0, 0))
    shown, answered, end, enter = b"", 0, time.monotonic() + seconds, time.monotonic() + 8
    squeezed = wanted.replace(" ", "").encode()
    found = False
    while not found and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                more = os.read(terminal, 65536)
            except OSError:
                break
            shown += more
            for question, answer in ANSWERS.items():
                for _ in range(more.count(question)):
                    os.write(terminal, answer)
        plain = SEQUENCE.sub(b"", shown)
        found = squeezed in re.sub(rb"\s+", b"", plain)
        if time.monotonic() > enter:
            enter += 8
            os.write(terminal, b"\r")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    sys.stdout.buffer.write(re.sub(rb"\n\s*\n+", b"\n", SEQUENCE.sub(b"", shown)).strip() + b"\n")
    sys.exit(0 if found else 1)


main()
