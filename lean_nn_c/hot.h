/* Opens what is compiled for speed in a module that is otherwise compiled for size; `#pragma GCC pop_options` closes it.
 *
 * More than half of such a module is Cython's own code, which reads arguments and raises errors. setup.py compiles it
 * small and defines LNN_HOT; the loops in the headers, between this and the pragma, are compiled as PLAIN there says,
 * and begin at 32 bytes: a sum of lines in the first cache is a fifth slower where its loop happens to lie across them. */
#pragma GCC push_options
#ifdef LNN_HOT
#pragma GCC optimize("O2", "tree-vectorize", "vect-cost-model=dynamic", "no-math-errno", "no-trapping-math", "align-loops=32")
#endif
