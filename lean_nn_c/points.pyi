# nothing for Python: the functions are called from conv.pyx
