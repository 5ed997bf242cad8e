#!/usr/bin/env python3
"""Makes the table of prices from the one in LiteLLM's package: packaging/prices/make.py [VERSION]

The package is fetched from the registry of Python packages with pip, and not installed. An earlier version
adds models that are no longer offered, which old conversations have.
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "crates/rejoin-core/src/history/prices.json"
TABLE = "litellm/model_prices_and_context_window_backup.json"
# Those who make models that the tools talk to, by LiteLLM's names; the first that has a model counts.
MAKERS = ["anthropic", "openai", "gemini", "moonshot", "dashscope", "xai", "mistral", "deepseek", "zai", "minimax"]
KINDS = {"chat", "responses", "completion"}
LEFT_OUT = re.compile(r"^ft:|audio|realtime|-tts|lyria|robotics")
EARLIER = "litellm==1.80.0"


def per_million(prices, name):
    """A price of LiteLLM, which is for one token, in US dollars for a million."""
    price = prices.get(name)
    return None if price is None else round(float(price) * 1e6, 6)


def fetch(wanted):
    """The version of LiteLLM that answers to this name, and its table."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, wanted]
        subprocess.run(command, check=True)
        [wheel] = pathlib.Path(folder).glob("litellm-*.whl")
        return wheel.name.split("-")[1], json.loads(zipfile.ZipFile(wheel).read(TABLE))


def add(models, table):
    """Adds the models of a table that are not known yet, with their prices."""
    for maker in MAKERS:
        for name, prices in sorted(table.items()):
            if prices.get("litellm_provider") != maker or prices.get("mode") not in KINDS:
                continue
            name = name.rsplit("/", 1)[-1]
            given, said = per_million(prices, "input_cost_per_token"), per_million(prices, "output_cost_per_token")
            if not given or not said or name in models or LEFT_OUT.search(name):
                continue
            cached = [per_million(prices, f"cache_{what}_input_token_cost") for what in ("read", "creation")]
            models[name] = [given, said] + [given if price is None else price for price in cached]


def main():
    version, table = fetch("litellm" + (f"=={sys.argv[1]}" if len(sys.argv) > 1 else ""))
    models = {}
    add(models, table)
    add(models, fetch(EARLIER)[1])
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(models.items()))
    date = datetime.date.today().isoformat()
    TARGET.write_text(f'{{\n  "from": "litellm {version}",\n  "date": "{date}",\n  "models": {{\n{lines}\n  }}\n}}\n')
    print(f"{len(models)} models, from litellm {version}")


if __name__ == "__main__":
    main()
