"""Combine encoded steps over time: a whole window in training, step by step while acting."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from clframe.models.libero.transformer import Transformer, block_causal, time_code

Readout: TypeAlias = Literal["first", "all"]


class Memory(Protocol):
    """The memory of episodes, for each row of a batch."""

    def forget(self, begun: Tensor) -> None:
        """Reset the rows that begin an episode."""
        ...

    def step(self, encoded: Tensor) -> Tensor:
        """Add the newest step; return one vector per row for all steps so far."""
        ...


class TemporalEncoder(nn.Module):
    """Maps encoded steps to one vector per step, which depends on it and the previous ones."""

    def remember(self, window: int) -> Memory:
        """Return a memory for acting step by step, of at least ``window`` steps."""
        raise NotImplementedError


class TemporalTransformer(TemporalEncoder):
    """A causal transformer over the tokens of several steps.

    Tokens of one step attend to each other and to those of earlier steps (a block-causal mask). The
    output is a step's first token, as in LIBERO, or all of its tokens: then precise numbers (such
    as the hand's position) need not pass through attention.

    Args:
        transformer: The transformer over all tokens.
        readout: The tokens of a step to output.
    """

    def __init__(self, transformer: Transformer, readout: Readout = "first") -> None:
        super().__init__()
        self.transformer, self.readout = transformer, readout

    def forward(self, tokens: Tensor) -> Tensor:
        """Map ``[n, steps, tokens, width]`` to ``[n, steps, width]``, or ``tokens * width``."""
        steps, each, width = tokens.shape[1:]
        tokens = tokens + time_code(steps, width, tokens)[:, None]
        mask = block_causal(steps, each, tokens.device)
        outputs = self.transformer(tokens.flatten(1, 2), mask)
        outputs = outputs.unflatten(1, (steps, each))
        read: Tensor = outputs[:, :, 0] if self.readout == "first" else outputs.flatten(2)
        return read

    def remember(self, window: int) -> Queue:
        """Return a memory of the last encoded steps."""
        return Queue(self, window)


class Queue:
    """The last encoded steps, which the transformer reads at every step.

    Rows have queues of different lengths, because their episodes begin at different times. They are
    filled from the front and the transformer is causal, so entries after the newest step have no
    effect.

    Args:
        look_back: The transformer over encoded steps.
        window: Number of steps to keep.
    """

    def __init__(self, look_back: TemporalTransformer, window: int) -> None:
        self.look_back, self.window = look_back, window
        self.steps: Tensor | None = None
        self.counts = torch.zeros(0, dtype=torch.long)

    def forget(self, begun: Tensor) -> None:
        """Empty the queues of these rows."""
        if len(self.counts) != len(begun):
            self.counts, self.steps = torch.zeros_like(begun, dtype=torch.long), None
        self.counts = self.counts.masked_fill(begun, 0)

    def step(self, encoded: Tensor) -> Tensor:
        """Add ``[n, tokens, width]`` and return the newest step's output."""
        if self.steps is None:
            self.steps = encoded[:, None].repeat(1, self.window, 1, 1)
        full = (self.counts == self.window)[:, None, None, None]
        rows = torch.arange(len(encoded), device=encoded.device)
        last = self.counts.clamp(max=self.window - 1)
        self.steps = torch.where(full, self.steps.roll(-1, 1), self.steps)
        self.steps[rows, last] = encoded
        self.counts = last + 1
        outputs: Tensor = self.look_back(self.steps[:, : int(self.counts.max())])
        return outputs[rows, last]


class TemporalLSTM(TemporalEncoder):
    """An LSTM over encoded steps.

    Args:
        n_inputs: Length of an encoded step.
        hidden: Width of its layers.
        layers: Number of layers.
    """

    def __init__(self, n_inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(n_inputs, hidden, layers, batch_first=True)

    def forward(self, encoded: Tensor) -> Tensor:
        """Map ``[n, steps, n_inputs]`` to ``[n, steps, hidden]``."""
        outputs: Tensor = self.lstm(encoded)[0]
        return outputs

    def remember(self, window: int) -> HiddenState:
        """Return a memory of the hidden state, which has no window."""
        return HiddenState(self.lstm)


class HiddenState:
    """The state of an LSTM, reset to zero at the beginning of an episode.

    Args:
        lstm: The network.
    """

    def __init__(self, lstm: nn.LSTM) -> None:
        self.lstm = lstm
        self.state: tuple[Tensor, Tensor] | None = None

    def forget(self, begun: Tensor) -> None:
        """Set the state of these rows to zero."""
        if self.state is None or self.state[0].shape[1] != len(begun):
            self.state = None
            return
        hidden, cell = (part.masked_fill(begun[:, None], 0.0) for part in self.state)
        self.state = (hidden, cell)

    def step(self, encoded: Tensor) -> Tensor:
        """Continue by one step ``[n, n_inputs]``."""
        out, self.state = self.lstm(encoded[:, None], self.state)
        output: Tensor = out[:, 0]
        return output
