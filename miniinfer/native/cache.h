// The paged KV cache of one layer, as attention reads it.
#pragma once
#include "core.h"

struct Head {  // the blocks of one key/value head
    const float* blocks;
    int64_t block_numbers;  // numbers of a block: P * D
};

inline Head head(const Cache& cache, int64_t which, int64_t kv_head) {
    const int64_t size = cache.block_size * cache.head_dim;
    return {cache.layer + (which * cache.num_kv_heads + kv_head) * cache.num_blocks * size, size};
}
