// The paged KV cache of one layer, as attention reads it.
#pragma once
#include "core.h"

template <class N> struct Head {  // the blocks of one key/value head
    const N* blocks;
    int64_t block_numbers;  // numbers of a block: P * D
};

template <class N> Head<N> head(const Cache<N>& cache, int64_t which, int64_t kv_head) {
    const int64_t size = cache.block_size * cache.head_dim;
    return {cache.layer + (which * cache.num_kv_heads + kv_head) * cache.num_blocks * size, size};
}
