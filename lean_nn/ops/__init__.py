"""One record per primitive: what it takes and means, how it is computed and differentiated, how exact it is.

===============  =========================================================================================
``elementwise``  arithmetic, smooth functions, comparisons, choices, and the gates that are their slopes
``activation``   relu's relatives
``broadcast``    sum and broadcast_to, each other's transpose
``reduce``       extremes with their winners; logsumexp, softmax, log_softmax
``norm``         standardize and its tangent, from which the normalisations are made
``normalize``    the same with a factor and a term, fused: batch normalisation
``dropout``      seeded
``linear``       matmul
``loss``         look-ups that skip an ignored index
``conv``         conv, conv_input, conv_weight; unfold and fold
``pool``         max, average and their transposes; ``smooth_pool`` the smooth maximum
``shape``        reshape, transpose, slice, pad, concat, flip
``indexing``     gather, scatter_add, take and their transposes
``identity``     alias and cast
``optim``        optimiser updates, one pass over memory each
===============  =========================================================================================
"""
