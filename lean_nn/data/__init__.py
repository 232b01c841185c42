"""Data for training: the digits that come along, splits, batches, augmentation, pictures from folders.

==============  =============================================================================================
``digits``      `load_digits`: 1,797 handwritten digits, in the package
``loader``      `Loader`: shuffled batches, prepared ahead by a thread, resumed where it stopped; `split`
``augment``     `Shift`, `Flip`, `Noise`, `Compose`: batches changed at random, by a seed
``folder``      `from_folder`: a folder of pictures or arrays per class
==============  =============================================================================================
"""

from lean_nn.data import augment
from lean_nn.data.digits import load_digits
from lean_nn.data.folder import from_folder, read_picture
from lean_nn.data.loader import Loader, split

__all__ = ["Loader", "augment", "from_folder", "load_digits", "read_picture", "split"]
