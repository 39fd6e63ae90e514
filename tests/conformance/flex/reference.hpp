// SPDX-License-Identifier: Apache-2.0
// The conversions of a transfer, one element at a time and by the definition of each format: what libflex is held
// against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <spyrecode-host-functions/sendataconvert/sen_data_convert.h>

namespace flex_test {

// Source and destination; the pairs that a copy of torch-spyre may ask for.
extern const std::vector<std::pair<DataFormats, DataFormats>> kPairs;

unsigned bits_of(DataFormats format);

std::uint64_t element(std::span<const std::uint8_t> memory, DataFormats format, std::int64_t index);
void set_element(std::span<std::uint8_t> memory, DataFormats format, std::int64_t index, std::uint64_t code);

std::uint64_t converted(DataFormats from, DataFormats to, std::uint64_t code);

// A code of the format for a number of a test's choice; the formats' special codes come often.
std::uint64_t some_code(DataFormats format, std::uint64_t random);

// Executes the nests.
void convert(const data_conversion_info& conversion, std::span<const std::uint8_t> source,
             std::span<std::uint8_t> destination);

}  // namespace flex_test
