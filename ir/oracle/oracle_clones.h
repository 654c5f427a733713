// Loops of the oracle's arithmetic, compiled for several instruction sets.
#pragma once

// The loader takes the best of the sets; where that does not work (clang's and sanitizers' own loaders)
// the plain one does.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TW_ORACLE_CLONES \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
// As above, but with the same bits in each set: nothing is contracted to fused multiply-adds.
#define TW_ORACLE_SAME_CLONES \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3", "fp-contract=off")))
#else
#define TW_ORACLE_CLONES
#define TW_ORACLE_SAME_CLONES
#endif
