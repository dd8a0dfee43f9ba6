"""Encoded steps put together over time: a window at once in learning, step by step in acting."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from clframe.models.libero.transformer import Transformer, block_causal, time_code

Readout: TypeAlias = Literal["first", "all"]


class Memory(Protocol):
    """What is kept in mind through episodes, for each row of a batch."""

    def forget(self, begun: Tensor) -> None:
        """Begin anew in the rows that begin an episode."""
        ...

    def step(self, encoded: Tensor) -> Tensor:
        """Put the newest step with those before it: what is known now, one vector per row."""
        ...


class TemporalEncoder(nn.Module):
    """Encoded steps to what is known at each, from it and from those before it."""

    def remember(self, window: int) -> Memory:
        """Begin to go step by step, with at least so many steps in mind."""
        raise NotImplementedError


class TemporalTransformer(TemporalEncoder):
    """A transformer over the tokens of several steps that never looks ahead.

    Tokens of one step see each other and those of earlier steps (a block-causal mask). What comes
    out at a step's first token is what is known then, as in LIBERO, or what comes out at all of
    its tokens: then numbers that matter to the last digit (where the hand is) need not come
    through attention.

    Args:
        transformer: Over all tokens.
        readout: Which tokens of a step are read.
    """

    def __init__(self, transformer: Transformer, readout: Readout = "first") -> None:
        super().__init__()
        self.transformer, self.readout = transformer, readout

    def forward(self, tokens: Tensor) -> Tensor:
        """``[n, steps, tokens, width]`` to ``[n, steps, width]``, or ``tokens * width``."""
        steps, each, width = tokens.shape[1:]
        tokens = tokens + time_code(steps, width, tokens)[:, None]
        mask = block_causal(steps, each, tokens.device)
        outputs = self.transformer(tokens.flatten(1, 2), mask)
        outputs = outputs.unflatten(1, (steps, each))
        read: Tensor = outputs[:, :, 0] if self.readout == "first" else outputs.flatten(2)
        return read

    def remember(self, window: int) -> Queue:
        """Keep the last encoded steps."""
        return Queue(self, window)


class Queue:
    """The last encoded steps, over which the transformer looks each time.

    Rows have queues of different lengths, since their episodes begin at different times. They are
    filled from the front, and the transformer never looks ahead, so what is behind the newest
    step does not matter.

    Args:
        look_back: Over encoded steps.
        window: How many are kept.
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
        """Add ``[n, tokens, width]`` and look back."""
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
        layers: How many.
    """

    def __init__(self, n_inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(n_inputs, hidden, layers, batch_first=True)

    def forward(self, encoded: Tensor) -> Tensor:
        """``[n, steps, n_inputs]`` to ``[n, steps, hidden]``."""
        outputs: Tensor = self.lstm(encoded)[0]
        return outputs

    def remember(self, window: int) -> HiddenState:
        """Keep the hidden state, which is not bound to a window."""
        return HiddenState(self.lstm)


class HiddenState:
    """The state of an LSTM, zero at the beginning of an episode and kept through it.

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
