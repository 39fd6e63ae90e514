// SPDX-License-Identifier: Apache-2.0
// Arrays in files as NumPy writes them (numpy.save): format 1.0 to 3.0, row-major, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "host_driver/tensor/data_type.hpp"

namespace cli {

struct NpyArray {
  svp::DataType dtype = svp::DataType::Uint8;
  std::vector<std::int64_t> size;
  std::vector<std::byte> bytes;  // of all elements, and no others
};

inline constexpr std::uint64_t kMostNpyBytes = std::uint64_t{4} << 30;

// The file may come from anybody. Throws InvalidArgument ("file"): it is none, is cut short or too long, has elements
// of a type that NumPy has and the host formats of a tensor have not, is column-major or big-endian; or it cannot be
// read.
NpyArray read_npy(const std::filesystem::path& path);
NpyArray parse_npy(std::span<const std::byte> content);

// As numpy.load() reads it. Throws InvalidArgument ("dtype") for a type that NumPy has not. The file appears whole or
// not at all; throws Error naming it.
std::vector<std::byte> npy_of(const NpyArray& array);
void write_npy(const std::filesystem::path& path, const NpyArray& array);

}  // namespace cli
