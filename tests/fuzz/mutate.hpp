// SPDX-License-Identifier: Apache-2.0
// For targets with a mutator of their own (LLVMFuzzerCustomMutator): libFuzzer's generic one. Only there in preset
// fuzz; the replaying tests link without it and never call it.
#pragma once

#include <cstddef>
#include <cstdint>

// Changes data[0, size) in place and returns the new size, at most `max_size`.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size)
    __attribute__((weak));
// What libFuzzer calls when a target defines it.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed);
