// SPDX-License-Identifier: Apache-2.0
// A kernel as the kernel build would write it, without code: enough for everything that the host does with one.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "host_driver/runtime/kernel.hpp"
#include "shared/crc32c.hpp"

namespace svp::test {

inline std::vector<std::byte> make_image(std::uint64_t text_bytes = 1024, std::uint64_t correction_bytes = 512) {
  wire::ImageHeader header{};
  header.magic = wire::kImageMagic;
  header.abi_version = wire::kImageAbiVersion;
  header.text_offset = sizeof header;
  header.text_bytes = text_bytes;
  header.pool_offset = sizeof header + text_bytes;
  header.pool_bytes = 128;
  header.image_bytes = header.pool_offset + 128;
  header.compute_entry = 64;
  header.max_correction_bytes = correction_bytes;
  std::vector<std::byte> image(header.image_bytes);
  std::memcpy(image.data(), &header, sizeof header);
  header.crc32c = wire::crc32c(0, image.data(), image.size());
  std::memcpy(image.data(), &header, sizeof header);
  return image;
}

inline std::uint32_t crc_of(const std::vector<std::byte>& image) {
  wire::ImageHeader header;
  std::memcpy(&header, image.data(), sizeof header);
  return header.crc32c;
}

inline std::string matmul_metadata(const std::vector<std::byte>& image) {
  return R"({"format": 1, "name": "matmul", "image_bytes": )" + std::to_string(image.size()) + R"(, "image_crc32c": )" +
         std::to_string(crc_of(image)) + R"(, "scratchpad_bytes": 0, "correction_bytes": 512, "operands": [
    {"name": "a", "access": "read", "dtype": "dl16", "layout": "stick", "shape": ["M", "K"]},
    {"name": "b", "access": "read", "dtype": "dl16", "layout": "stick", "shape": ["K", "N"]},
    {"name": "c", "access": "write", "dtype": "dl16", "layout": "stick", "shape": ["M", "N"]}],
  "symbols": [
    {"kind": "address", "operand": 0}, {"kind": "address", "operand": 1}, {"kind": "address", "operand": 2},
    {"kind": "stride", "operand": 0, "dimension": "K"}, {"kind": "stride", "operand": 1, "dimension": "N"},
    {"kind": "stride", "operand": 2, "dimension": "N"},
    {"kind": "dimension", "operand": 0, "dimension": "M"}, {"kind": "dimension", "operand": 1, "dimension": "N"},
    {"kind": "dimension", "operand": 0, "dimension": "K"}],
  "functions": [{"name": "_ZN6kernel7computeERKN3abi15KernelArgumentsE", "offset": 64, "bytes": 64}, {"name": "(anonymous namespace)::apply", "offset": 0, "bytes": 64}]})";
}

inline std::shared_ptr<const Kernel> matmul_kernel() {
  auto image = make_image();
  const std::string metadata = matmul_metadata(image);
  return Kernel::from_memory(std::move(image), metadata);
}

// The same, with symbols for passes over K.
inline std::shared_ptr<const Kernel> matmul_in_passes() {
  auto image = make_image();
  std::string metadata = matmul_metadata(image);
  const std::string last = R"({"kind": "dimension", "operand": 0, "dimension": "K"})";
  metadata.insert(metadata.find(last) + last.size(),
                  R"(, {"kind": "partials", "operand": 2}, {"kind": "pass", "operand": 2})");
  return Kernel::from_memory(std::move(image), metadata);
}

// One output [M, N], and nothing that a launch could tell it.
inline std::shared_ptr<const Kernel> kernel_without_symbols() {
  const auto image = make_image();
  return Kernel::from_memory(image, R"({"format": 1, "name": "plain", "image_bytes": )" + std::to_string(image.size()) +
                                        R"(, "image_crc32c": )" + std::to_string(crc_of(image)) +
                                        R"(, "scratchpad_bytes": 0, "correction_bytes": 0, "operands": [
    {"name": "c", "access": "write", "dtype": "dl16", "layout": "stick", "shape": ["M", "N"]}],
  "symbols": [], "functions": []})");
}

// `count` operands [N] named "t0", "t1", …; the last one is written, the others are read. Takes their addresses.
inline std::string metadata_of_many(const std::vector<std::byte>& image, std::size_t count) {
  std::string operands, symbols;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    operands += comma + R"({"name": "t)" + std::to_string(i) + R"(", "access": ")" +
                (i + 1 == count ? "write" : "read") + R"(", "dtype": "dl16", "layout": "stick", "shape": ["N"]})";
    symbols += comma + R"({"kind": "address", "operand": )" + std::to_string(i) + "}";
  }
  return R"({"format": 1, "name": "many", "image_bytes": )" + std::to_string(image.size()) + R"(, "image_crc32c": )" +
         std::to_string(crc_of(image)) + R"(, "operands": [)" + operands + R"(], "symbols": [)" + symbols +
         R"(], "functions": []})";
}

inline std::shared_ptr<const Kernel> kernel_of_many(std::size_t count) {
  const auto image = make_image(1024, wire::kMaxCorrectionBytes);
  return Kernel::from_memory(image, metadata_of_many(image, count));
}

inline CompiledKernel matmul_1024() { return {matmul_kernel(), {{"M", 1024}, {"N", 1024}, {"K", 1024}}}; }

}  // namespace svp::test
