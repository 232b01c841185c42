"""Questions about speed, each answered beside PyTorch in one run: ``python -m benches --help``.

==============  =================================================================================
``harness``     what a bench is, how two libraries are timed in turn, what is reported
``peak``        what this machine can do at most: float operations and bytes per second
``conv``        convolution: the rows of PyTorch's own table, and others
``matmul``      matrix products: squares, linear layers, batches
``pool``        pooling likewise
``layers``      convolutions that a seed draws, ``windows`` poolings: so that no list is fitted (``drawn``)
``elementwise`` activations, sums, normalisations, losses, optimiser updates
``forward``     what forward mode costs beside a plain pass
``training``    training steps of whole networks (``networks``), and one image through them
``graph``       the same steps and images compiled; compile times, memory said and measured
``overhead``    what one operation, a long chain, the import and the wheel cost
``report``      text, CSV, Markdown and a bar chart from the results
==============  =================================================================================
"""
