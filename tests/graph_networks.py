"""Whole networks for the tests of compiled graphs: those of the benches, small, and three of our own."""

from __future__ import annotations

import numpy as np

import lean_nn as ln
import lean_nn.functional as F
from benches.networks import Network, cnn3d_network, is_buffer, lenet_network, resnet_network


def mlp(p, x, training=True, F=F):
    x = F.sigmoid(F.linear(x, p["a.weight"], p["a.bias"]))
    return F.linear(F.relu(F.linear(x, p["b.weight"], p["b.bias"])), p["c.weight"], p["c.bias"])


def mlp_network():
    shapes = {"a.weight": (8, 6), "a.bias": (8,), "b.weight": (7, 8), "b.bias": (7,), "c.weight": (3, 7), "c.bias": (3,)}
    return Network("MLP", shapes, mlp, (4, 6), 3)


def unet(p, x, training=True, F=F):
    """Down twice, up twice by transposed convolution, each level joined with the one it came from; mean over space."""
    top = F.relu(F.conv2d(x, p["down1.weight"], p["down1.bias"], padding=1))
    mid = F.relu(F.conv2d(F.max_pool2d(top, 2), p["down2.weight"], p["down2.bias"], padding=1))
    low = F.relu(F.conv2d(F.avg_pool2d(mid, 2), p["down3.weight"], p["down3.bias"], padding=1))
    up = F.conv_transpose2d(low, p["up2.weight"], p["up2.bias"], stride=2)
    mid = F.relu(F.conv2d(F.concat([up, mid], 1), p["join2.weight"], p["join2.bias"], padding=1))
    up = F.conv_transpose2d(mid, p["up1.weight"], p["up1.bias"], stride=2, padding=1, output_padding=0)
    return F.conv2d(F.concat([up, top], 1), p["join1.weight"], p["join1.bias"]).mean((2, 3))


def unet_network():
    shapes = {
        "down1.weight": (3, 1, 3, 3), "down1.bias": (3,), "down2.weight": (4, 3, 3, 3), "down2.bias": (4,),
        "down3.weight": (6, 4, 3, 3), "down3.bias": (6,), "up2.weight": (6, 4, 2, 2), "up2.bias": (4,),
        "join2.weight": (4, 8, 3, 3), "join2.bias": (4,), "up1.weight": (4, 3, 4, 4), "up1.bias": (3,),
        "join1.weight": (4, 6, 1, 1), "join1.bias": (4,),
    }  # fmt: skip
    return Network("U-Net", shapes, unet, (2, 1, 8, 8), 4)


def mobilenet(p, x, training=True, F=F):
    """A stem, two inverted bottlenecks (widen, depthwise, narrow; the second with a shortcut), hardswish, a head."""

    def norm(name, x):
        mean, var = p[f"{name}.running_mean"], p[f"{name}.running_var"]
        return F.batch_norm(x, mean, var, p[f"{name}.weight"], p[f"{name}.bias"], training)

    def layer(name, x, stride=1, padding=0, groups=1):
        return norm(f"{name}.norm", F.conv2d(x, p[f"{name}.conv.weight"], None, stride, padding, groups=groups))

    x = F.hardswish(layer("stem", x, 2, 1))
    for name, stride in (("block1", 2), ("block2", 1)):
        y = F.hardswish(layer(f"{name}.widen", x))
        y = F.hardswish(layer(f"{name}.depth", y, stride, 1, y.shape[1]))
        y = layer(f"{name}.narrow", y)
        x = x + y if stride == 1 else y
    return F.linear(F.adaptive_avg_pool2d(x, 1).flatten(1), p["fc.weight"], p["fc.bias"])


def mobilenet_network():
    convs = {
        "stem": (4, 3, 3, 3), "block1.widen": (8, 4, 1, 1), "block1.depth": (8, 1, 3, 3), "block1.narrow": (6, 8, 1, 1),
        "block2.widen": (12, 6, 1, 1), "block2.depth": (12, 1, 3, 3), "block2.narrow": (6, 12, 1, 1),
    }  # fmt: skip
    shapes = {"fc.weight": (10, 6), "fc.bias": (10,)}
    for name, shape in convs.items():
        shapes[f"{name}.conv.weight"] = shape
        shapes |= {f"{name}.norm.{part}": shape[:1] for part in ("weight", "bias", "running_mean", "running_var")}
    return Network("MobileNet", shapes, mobilenet, (2, 3, 16, 16))


NETWORKS = {
    "mlp": mlp_network(),
    "lenet": lenet_network(batch=3, size=12, width=2),
    "resnet20": resnet_network(batch=2, size=8, depth=3, width=2),
    "unet": unet_network(),
    "cnn3d": cnn3d_network(batch=2, size=6, width=2),
    "mobilenet": mobilenet_network(),
}


def example(name, dtype="float32"):
    """Parameters (those of norms made general), running statistics, images and classes."""
    network, rng = NETWORKS[name], np.random.default_rng(7)
    arrays = network.make(rng, dtype)
    for array in arrays.values():
        if array.ndim == 1:
            array += (0.2 * rng.random(array.shape)).astype(dtype)
    params = {key: a for key, a in arrays.items() if not is_buffer(key)}
    buffers = {key: a for key, a in arrays.items() if is_buffer(key)}
    return params, buffers, *network.batch(rng, dtype)


def training_step(name, lr=0.05, momentum=0.9):
    """``(params, slots, buffers, x, t) ↦ (params', slots', loss)``: SGD with momentum; the buffers change in place."""
    network = NETWORKS[name]

    def step(params, slots, buffers, x, t):
        def loss(params):
            return F.cross_entropy(network.forward({**params, **buffers}, x, True), t)

        value, grads = ln.value_and_grad(loss)(params)
        slots = {key: momentum * slots[key] + grads[key] for key in slots}
        return {key: params[key] - lr * slots[key] for key in params}, slots, value

    return step
