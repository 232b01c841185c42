"""The training loop: compiled steps, metrics, early stopping, checkpoints that survive a kill.

==============  =============================================================================================
``loop``        `fit`: epochs over batches, in an order that can be left and taken up again
``step``        one training step as a pure function, eager or compiled; one evaluation; `predict`, `evaluate`
``metrics``     accuracy and others, by name
``stopping``    `EarlyStopping`
``checkpoint``  all that a run knows, written whole or not at all
``history``     `History`: a column per quantity, a row per epoch
``progress``    a bar on a terminal, plain lines elsewhere
==============  =============================================================================================
"""

from lean_nn.training.history import History
from lean_nn.training.loop import fit
from lean_nn.training.step import evaluate, predict
from lean_nn.training.stopping import EarlyStopping

__all__ = ["EarlyStopping", "History", "evaluate", "fit", "predict"]
