"""Archives have the names by which `cargo binstall` asks for them: names.py ARCHIVES"""

import json
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

archives = Path(sys.argv[1])
with open("Cargo.toml", "rb") as file:
    manifest = tomllib.load(file)
package = {**manifest["package"], **manifest["workspace"]["package"]}
with open("dist-workspace.toml", "rb") as file:
    targets = tomllib.load(file)["dist"]["targets"]
manifest = subprocess.run(
    ["dist", "manifest", "--artifacts=all", "--no-local-paths", "--output-format=json"],
    check=True,
    capture_output=True,
    text=True,
)
made = set(json.loads(manifest.stdout)["artifacts"])


def fill(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"{{ {name} }}", value)
    assert "{" not in template, template
    return template


for target in targets:
    windows = "windows" in target
    settings = {"pkg-fmt": "tgz", **package["metadata"]["binstall"]}
    settings |= settings["overrides"].get(target, {})
    values = {
        "repo": package["repository"],
        "version": package["version"],
        "name": package["name"],
        "bin": package["name"],
        "target": target,
        "archive-suffix": {"tgz": ".tar.gz", "zip": ".zip"}[settings["pkg-fmt"]],
        "binary-ext": ".exe" if windows else "",
    }
    name = fill(settings["pkg-url"], values).rsplit("/", 1)[1]
    assert name in made, f"{name} is none of {sorted(made)}"
    if (archives / name).exists():
        with tarfile.open(archives / name) as packed:
            program = fill(settings["bin-dir"], values)
            assert program in packed.getnames(), f"{name} has no {program}"
