// SPDX-License-Identifier: Apache-2.0
// Random copies between host memory and tensors, any shapes, layouts, views and formats, against a model that keeps one
// code per element and converts element by element. Every byte of the card's tensors is compared: elements, neighbours
// of views, and padding. No test framework: what is wrong is a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "host_driver/frontend/tensor_copy.hpp"

namespace svp::test {

struct CopyCounts {
  std::size_t to_card = 0;
  std::size_t to_host = 0;
  std::size_t on_card = 0;
  std::size_t restickified = 0;
  std::size_t elements = 0;
  std::size_t in_chunks = 0;  // tensors whose memory lies in several regions: where several are held

  std::size_t copies() const { return to_card + to_host + on_card + restickified; }
};

class TensorCopies {
 public:
  // Both outlive this. Allocates a few tensors of some thousand elements at a time.
  TensorCopies(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, std::uint64_t seed);
  TensorCopies(const TensorCopies&) = delete;
  TensorCopies& operator=(const TensorCopies&) = delete;

  // Until `copies` more have been made. What was wrong first, if anything; then this is not used any more.
  std::optional<std::string> run(std::size_t copies);
  const CopyCounts& counts() const { return counts_; }

 private:
  struct Modelled;
  struct HostArray;
  struct Reading;

  std::int64_t below(std::int64_t bound);
  CopyPath random_path();
  template <typename List>
  auto one_of(const List& list);
  std::vector<std::int64_t> random_shape();
  TensorOptions random_options(DataType dtype, DeviceType device_dtype, const std::vector<std::int64_t>& shape);
  // Of the same formats as `like`, if it is given.
  Modelled random_tensor(const Modelled* like);
  SpyreTensor random_view(const SpyreTensor& tensor, bool for_writing);
  HostArray random_array(DataType dtype, const std::vector<std::int64_t>& size, bool may_repeat);

  void write(Modelled& tensor, const SpyreTensor& view);
  void begin_reading(const Modelled& tensor, std::vector<Reading>& readings);
  void copy_on_card(Modelled& to, const Modelled& from);
  void restickify_one(std::array<Modelled, 2>& tensors);
  std::optional<std::string> check(const Reading& reading) const;
  std::optional<std::string> check_bytes(const Modelled& tensor);

  Runtime& runtime_;
  SpyreAllocator& allocator_;
  SpyreStream& stream_;
  std::mt19937_64 random_;
  CopyCounts counts_;
};

}  // namespace svp::test
