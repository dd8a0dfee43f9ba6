"""Write the vectors of a stream's instructions, as BERT, RoBERTa, GPT-2 or CLIP have them.

::

    pip install transformers
    python scripts/make_language_vectors.py bert.npz --encoder bert --stream tabletop_goal
    python scripts/make_language_vectors.py all.npz --encoder clip --stream tabletop_90
    clframe fit stream=tabletop_goal stream.task_input=file stream.language_file=bert.npz

Run it where the models are (a folder with one is given by ``--model``) and take the file along:
reading it needs neither ``transformers`` nor a network. The vectors are those of LIBERO's
embeddings (Liu et al., 2023, Table 3): texts are filled up to 25 tokens; BERT's and RoBERTa's are
the pooled output, CLIP's the text features, GPT-2's the last hidden state at the last of the 25
places. With each file come "Task 1", "Task 2", ..., which LIBERO calls the one-hot embedding
(``stream.task_input=task_id``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import ClframeError, SettingError
from clframe.robot.language import task_name
from clframe.robot.language_file import write

MODELS = {
    "bert": "bert-base-cased",
    "roberta": "roberta-base",
    "gpt2": "gpt2",
    "clip": "openai/clip-vit-base-patch32",
}
TOKENS = 25
BATCH = 32


def load(encoder: str, model: str) -> tuple[Any, Any]:
    """The tokenizer and the model.

    Raises:
        SettingError: With what is missing.
    """
    try:
        import transformers
    except ImportError as error:
        raise SettingError(
            "the package transformers is not installed here: pip install transformers"
        ) from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        network = transformers.AutoModel.from_pretrained(model).eval()
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SettingError(
            f"the model '{model}' is neither here nor can it be fetched: give its folder with "
            f"--model ({reason})"
        ) from error
    if encoder in ("gpt2", "roberta"):
        tokenizer.pad_token = tokenizer.eos_token  # as LIBERO does; GPT-2 has none of its own
    return tokenizer, network


def encode(encoder: str, tokenizer: Any, network: Any, texts: Sequence[str]) -> NDArray[np.float32]:
    """A vector for each text."""
    import torch

    parts = []
    for start in range(0, len(texts), BATCH):
        tokens = tokenizer(
            list(texts[start : start + BATCH]),
            max_length=TOKENS,
            padding="max_length",
            truncation=True,
            return_tensors="pt",
        )
        with torch.inference_mode():
            if encoder == "clip":
                found = network.get_text_features(
                    input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
                )
                # Newer versions of the package give all outputs of the text model.
                found = getattr(found, "pooler_output", found)
            else:
                output = network(
                    input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
                )
                found = (
                    output.last_hidden_state[:, -1] if encoder == "gpt2" else output.pooler_output
                )
        parts.append(found.float().numpy())
    return np.concatenate(parts)


def instructions(streams: Sequence[str]) -> list[str]:
    """Every instruction of the streams once, and a name for each task."""
    import clframe

    texts: dict[str, None] = {}
    most = 0
    for name in streams:
        stream = clframe.stream(name)
        found = [task.info["language"] for task in stream.tasks if "language" in task.info]
        if not found:
            raise SettingError(f"stream '{name}' has no instructions")
        texts |= dict.fromkeys(found)
        most = max(most, len(stream.tasks))
    return [*texts, *map(task_name, range(most))]


def main(words: Sequence[str] | None = None) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", type=Path, help="the file to write, FILE.npz")
    parser.add_argument("--encoder", choices=MODELS, default="bert")
    parser.add_argument("--model", help="a folder with the model, or its name on the hub")
    parser.add_argument("--stream", nargs="+", default=[], help="whose instructions")
    parser.add_argument("--texts", type=Path, help="a file with one more text a line")
    arguments = parser.parse_args(words)
    try:
        texts = instructions(arguments.stream)
        if arguments.texts is not None:
            lines = arguments.texts.read_text().splitlines()
            texts = list(dict.fromkeys([*texts, *filter(None, map(str.strip, lines))]))
        if not texts:
            raise SettingError("there are no texts: give --stream NAME or --texts FILE")
        model = arguments.model or MODELS[arguments.encoder]
        vectors = encode(arguments.encoder, *load(arguments.encoder, model), texts)
        write(arguments.out, texts, vectors)
    except (ClframeError, OSError) as error:
        print(f"make_language_vectors: {error}", file=sys.stderr)
        return 2
    print(f"{len(texts)} vectors of {vectors.shape[1]} numbers in {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
