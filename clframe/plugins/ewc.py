"""Elastic weight consolidation, with an anchor per experience or online."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import torch

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.plugins._fisher import Estimate, fisher
from clframe.plugins._quadratic import PenaltyStep, _ConvexPenalty
from clframe.utils.setting_checks import check_at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience
    from clframe.data.dataset import Data


class EWC(_ConvexPenalty):
    """Elastic weight consolidation: a penalty on moving parameters that old data depends on.

    Kirkpatrick et al., eq. 3, with a term for each experience ``k`` learned so far::

        loss + weight/2 * sum_k sum_i F_i^k (theta_i - theta_i^k)^2

    The sum is kept as one quadratic, so the cost of a step does not depend on the number of
    experiences. With ``online=True`` there is one anchor, the parameters after the last
    experience, and a running Fisher ``R``; the forms in use are not the same::

        van_de_ven    R <- F + gamma R                  penalty  weight/2 * gamma * sum R (..)^2
        libero_paper  R <- gamma R + (1 - gamma) F      penalty  weight/2 * sum R (..)^2
        libero_code   R <- gamma R + F                  penalty  weight * sum R (..)^2

    The right weight depends on estimate, form and data by orders of magnitude. Split MNIST, van de
    Ven & Tolias 2019 (task / domain / class): EWC 1e7 / 1e6 / 1e8; online EWC 1e8 / 1e8 / 1e9 with
    gamma 0.8 / 0.7 / 0.8 (both with ``fisher=predicted``); van de Ven et al. 2022: EWC 1e5 / 1e10 /
    1e9 with ``fisher=exact``. Permuted MNIST, 2019: 500 / 500 / 1; online 500 / 1000 / 5 with gamma
    0.8 / 0.9 / 1. OpenLORIS: 5240, predicted labels. LIBERO: 5e4, gamma 0.9, ``fisher=batch``.
    Permuted and rotated MNIST of DER's paper, run with Mammoth: 0.7, gamma 1,
    ``fisher=true_weighted``, whose running Fisher and penalty are those of ``libero_code``.

    Weights as large as these are stiff: the penalty's curvature ``s_i = weight F_i`` is so large
    that a gradient step on it passes the anchor. Adam then swings by its learning rate about the
    anchors of parameters that should hardly move, and in some runs a task is not learned
    (split MNIST, task-incremental, 1e7: about one run in five ends below 97, both in van de Ven's
    program and here). ``step=proximal`` leaves the penalty out of the loss (and out of the logged
    loss) and minimizes it exactly after each step of the optimizer, whose step size for
    parameter i is ``eta_i``::

        theta_i <- theta_i + w_i (anchor_i - theta_i)    w_i = eta_i s_i / (1 + eta_i s_i) < 1

    It never passes the anchor, however large the weight, and its fixed points are exactly where the
    gradient of loss and penalty together is zero; see ``clframe/plugins/_proximal.py``.

    Args:
        weight: Strength of the penalty (lambda).
        fisher: How the Fisher information is estimated: ``exact`` (expectation over the active
            classes), ``sample`` (one label drawn from the model), ``predicted`` (its most probable
            label), ``true`` (the data's label), ``true_weighted`` (the same, times the label's
            probability, as in Mammoth) or ``batch`` (squared gradient of mini-batches).
        samples: How many of the experience's samples to estimate from; None for all.
        batch_size: Samples at a time; None for the training batch size. Matters only for ``batch``.
        memory: Megabytes that gradients of single samples may take at a time.
        online: Keep one anchor and a running Fisher instead of one for each experience.
        gamma: With ``online``: the factor by which the running Fisher decays.
        form: With ``online``: which of the three formulas.
        step: Whether the penalty is a term of the loss (``gradient``, as in the papers) or an
            implicit step of its own (``proximal``; with sgd, adam and adamw).
        floor: Lower bound of a sample's Fisher information for a parameter, before the mean
            over samples; 0 for no floor. Continual World's code has 1e-5, so that no shared
            weight of a policy is quite free (and the penalty of ``online=true form=libero_code``).
            Papers on classifiers have none. Not for ``fisher=batch``.

    Example:
        ``clframe fit strategy=ewc+replay strategy.ewc.weight=1e5 strategy.ewc.online=true``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import EWC
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [EWC(weight=1e5, online=True), "replay"]).strategy
        'ewc+replay'
    """

    name = "ewc"
    paper = (
        "Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, 2017; online: "
        "Schwarz et al., Progress & Compress, 2018"
    )

    def __init__(
        self,
        weight: float = 1e6,
        fisher: Estimate = "exact",
        samples: int | None = None,
        batch_size: int | None = None,
        memory: int = 128,
        online: bool = False,
        gamma: float = 1.0,
        form: Literal["van_de_ven", "libero_paper", "libero_code"] = "van_de_ven",
        step: PenaltyStep = "gradient",
        floor: float = 0.0,
    ) -> None:
        super().__init__(step)
        self.weight = weight
        self.fisher: Estimate = fisher
        self.samples = samples
        self.batch_size = batch_size
        self.memory = memory
        self.online = online
        self.gamma = gamma
        self.form = form
        self.floor = floor
        if fisher == "batch":
            self.capabilities = replace(self.capabilities, batch_losses=batch_size or 0)
        check_at_least(self, self.name, weight=0, samples=1, batch_size=1, memory=1, floor=0)
        if floor and fisher == "batch":
            raise SettingError(
                "ewc.floor bounds single samples and cannot be used with ewc.fisher=batch"
            )
        if not 0 <= gamma <= 1:
            raise SettingError(f"ewc.gamma must be between 0 and 1, got {gamma!r}")
        if not online and (gamma != 1.0 or form != "van_de_ven"):
            raise SettingError("ewc.gamma and ewc.form apply only with ewc.online=true")
        if form == "libero_paper" and gamma == 1:
            raise SettingError(
                "ewc.gamma must be below 1 with ewc.form=libero_paper, which weights new data by "
                "1 - gamma"
            )

    @property
    def factor(self) -> float:
        """Factor of the quadratic form: the weight, scaled as in the chosen form."""
        if not self.online:
            return self.weight / 2
        factors = {"van_de_ven": self.gamma / 2, "libero_paper": 1 / 2, "libero_code": 1.0}
        return self.weight * factors[self.form]

    @hookimpl
    def after_experience(self, learner: Learner, experience: Experience, data: Data) -> None:
        """Add the Fisher information of the experience's data.

        The stream's last experience is skipped, because nothing is learned after it.
        """
        if not learner.has_next_experience:
            return
        new = fisher(
            learner,
            data,
            self.fisher,
            self.samples,
            self.batch_size or learner.engine.settings.batch_size,
            self.memory,
            self.floor,
        )
        anchor = learner.named_trainable()
        if not self.online:
            self.quadratic.add(new, anchor)
            return
        share = 1 - self.gamma if self.form == "libero_paper" else 1.0
        old = self.quadratic.strength
        with torch.no_grad():
            running = {
                name: share * f + self.gamma * old[name] if name in old else share * f
                for name, f in new.items()
            }
        self.quadratic.replace(running, anchor)
