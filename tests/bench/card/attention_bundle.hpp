// SPDX-License-Identifier: Apache-2.0
// An attention as torch-spyre makes it of scaled_dot_product_attention: a loop over blocks of keys that keeps a running
// maximum and a running sum, with one block; 29 operations on 32 cores, values between them in the scratchpads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/bundle_builder.hpp"

namespace bench {

inline constexpr std::uint32_t kAttentionBatch = 2;
inline constexpr std::uint32_t kAttentionHeads = 8;
inline constexpr std::uint32_t kAttentionRows = 128;  // of queries, and of keys and values
inline constexpr std::uint32_t kAttentionWidth = 64;  // one stick

// Arguments, all in DL16: a stick with 0, one with -infinity, the queries, a stick with the square root of the scale,
// the keys, the mask that is added to the scores, the values, and the result.
test::BundleBuilder attention_bundle();
// Their bytes.
std::vector<std::size_t> attention_bytes();
// Where the bundle has elements of a tensor [batch, heads, rows, width], in row-major order: their numbers in its
// memory.
std::vector<std::size_t> attention_places();
// Likewise of the mask [rows, rows].
std::vector<std::size_t> attention_mask_places();

}  // namespace bench
