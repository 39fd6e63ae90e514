// SPDX-License-Identifier: Apache-2.0
// What a staged transfer does instead of a memcpy: it converts between the caller's memory and a staging chunk, so that
// each byte is touched once. Called on the staging worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace svp {

class StagedConverter {
 public:
  // `chunk` stands for the bytes [offset, offset + chunk.size()) of the transfer. Chunks come in order, each once; all
  // of them again when the launch is sent again after a reset of its stream.
  virtual void fill_chunk(std::uint64_t offset, std::span<std::byte> chunk) noexcept = 0;
  virtual void drain_chunk(std::uint64_t offset, std::span<const std::byte> chunk) noexcept = 0;

 protected:
  ~StagedConverter() = default;
};

}  // namespace svp
