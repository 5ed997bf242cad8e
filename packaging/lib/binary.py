"""What a built binary is: the system that it runs on, read from its own header."""

import re
import struct
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ELF_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
PE_MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64"}
MACH_O_CPUS = {0x0100_0007: "x86_64", 0x0100_000C: "aarch64"}


@dataclass(frozen=True)
class System:
    """A system that a binary runs on."""

    # "linux", "darwin" or "windows".
    os: str
    # "x86_64" or "aarch64".
    cpu: str
    # The oldest glibc it runs with, such as (2, 34). None if it needs none.
    glibc: tuple[int, int] | None = None


class Unsupported(Exception):
    """The file is not a binary that can be packed."""


def system_of(data: bytes) -> System:
    """Reads the header of an ELF, Mach-O or PE file."""
    try:
        if data[:4] == b"\x7fELF":
            (machine,) = struct.unpack_from("<H", data, 18)
            return System("linux", ELF_MACHINES[machine], glibc_of(data))
        if data[:4] == b"\xcf\xfa\xed\xfe":
            (cpu,) = struct.unpack_from("<I", data, 4)
            return System("darwin", MACH_O_CPUS[cpu])
        if data[:2] == b"MZ":
            (at,) = struct.unpack_from("<I", data, 0x3C)
            if data[at : at + 4] == b"PE\0\0":
                (machine,) = struct.unpack_from("<H", data, at + 4)
                return System("windows", PE_MACHINES[machine])
    except (KeyError, struct.error):
        pass
    raise Unsupported("it is not a program for Linux, macOS or Windows on x86-64 or ARM64")


def glibc_of(data: bytes) -> tuple[int, int] | None:
    """The newest version of glibc that a binary's symbols ask for."""
    versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", data)
    return max(((int(major), int(minor)) for major, minor in versions), default=None)


def package() -> dict:
    """The `[package]` table of Cargo.toml, with what it has of the workspace."""
    with open(ROOT / "Cargo.toml", "rb") as file:
        manifest = tomllib.load(file)
    shared = manifest["workspace"]["package"]
    members = manifest["package"].items()
    return {name: shared[name] if value == {"workspace": True} else value for name, value in members}


def arguments(argv: list[str]) -> tuple[Path, Path]:
    """The command line of a build script: BINARY OUT."""
    if len(argv) != 3:
        raise SystemExit(f"usage: {argv[0]} BINARY OUT")
    binary, out = Path(argv[1]), Path(argv[2])
    if not binary.is_file():
        raise SystemExit(f"{binary}: there is no such file; build it with `cargo build --release`")
    out.mkdir(parents=True, exist_ok=True)
    return binary, out


def read(binary: Path) -> tuple[bytes, System]:
    """A binary's bytes, and what it runs on."""
    data = binary.read_bytes()
    try:
        return data, system_of(data)
    except Unsupported as error:
        raise SystemExit(f"{binary}: {error}") from None


def share(binary: Path) -> dict[str, bytes]:
    """The completions and manual pages of a binary: `completions/_rejoin`, `man/rejoin.1` and so on.

    In an archive of a release they are beside the binary; otherwise the binary writes them. One
    for another system cannot: its packages are made without them.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = binary.parent
        if not (folder / "man").is_dir():
            folder = Path(made)
            try:
                build = ROOT / "packaging" / "share" / "build"
                subprocess.run([build, binary.resolve(), folder], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                print(f"{binary}: cannot be run here, so there are no manual pages", file=sys.stderr)
                return {}
        files = [*folder.glob("completions/*"), *folder.glob("man/*")]
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(files)}
