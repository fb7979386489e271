// Loops over lanes and columns, compiled once for every CPU and once each for those with AVX2 and AVX-512.
#pragma once

/// Before a function: the loader picks the copy that suits the CPU. What the function calls has to be inline
/// to be part of it. GCC and glibc on x86-64; elsewhere there is one copy.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__)
#define JFA_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define JFA_VECTOR_CLONES
#endif
