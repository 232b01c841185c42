ISA_LEVELS: tuple[str, ...]
OPENMP: int
COMPILER: str

def runs(isa: str) -> bool: ...
