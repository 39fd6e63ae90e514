// SPDX-License-Identifier: Apache-2.0
// Strided transfers on the real firmware, held against copy_strided() on the host: nests at random in all three
// directions, and tensors of random shape, layout and view both ways. SPYRE_STRIDED_CASES: how many tensors; a quarter
// as many nests.
#include <cstdlib>
#include <string>

#include "host_driver/tensor/strided_copy.hpp"
#include "tests/device/runtime/shared_context.hpp"
#include "tests/support/nest_loops.hpp"
#include "tests/support/random_nests.hpp"

namespace svp {
namespace {

using test::loops_of;
using test::Nest;
using Dims = std::vector<std::int64_t>;

constexpr std::uint64_t kSlot = 16 * wire::kKiB;  // of a case at each place
constexpr std::size_t kBatch = 64;                // cases between two comparisons
constexpr std::uint64_t kMemory = kBatch * kSlot;

std::size_t cases() {
  const char* text = std::getenv("SPYRE_STRIDED_CASES");
  return text == nullptr ? 50'000 : std::strtoull(text, nullptr, 10);
}

// Formats of so many bytes that the host copies as they are.
ElementFormat format_of_bytes(std::uint32_t bytes) {
  return bytes == 1 ? ElementFormat::Int8 : bytes == 2 ? ElementFormat::Int16 : ElementFormat::Int32;
}

// Memory that transfers read or write, and what it has to hold.
struct Place {
  std::vector<std::byte> expected;
  std::function<StridedPlace(std::uint64_t offset)> at;

  std::span<std::byte> slot(std::size_t i) { return std::span(expected).subspan(i * kSlot, kSlot); }
};

class StridedOnTheCard : public test::OneCard {
 protected:
  StridedOnTheCard() {
    test::fill_pattern(out_.bytes(), 1);
    std::ranges::fill(back_.bytes(), std::byte{0});
    for (const AllocationIndex memory : {a_, b_}) stream().Launch(Job::fill(memory, kMemory, 0), {});
    stream().Synchronize(test::soon());
    host_ = {{out_.bytes().begin(), out_.bytes().end()}, in_host(out_)};
    returned_ = {std::vector<std::byte>(kMemory), in_host(back_)};
    on_a_ = {std::vector<std::byte>(kMemory), in_card(a_)};
    on_b_ = {std::vector<std::byte>(kMemory), in_card(b_)};
  }
  ~StridedOnTheCard() override {
    free(a_);
    free(b_);
  }

  static std::function<StridedPlace(std::uint64_t)> in_host(PinnedBuffer& buffer) {
    return [&buffer](std::uint64_t offset) { return PinnedPlace{buffer.data() + offset, kSlot}; };
  }
  static std::function<StridedPlace(std::uint64_t)> in_card(AllocationIndex index) {
    return [index](std::uint64_t offset) { return CardPlace{index, offset}; };
  }

  void send(std::size_t i, const Place& from, const Place& to, std::uint32_t element_bytes, const StridedLoops& nest) {
    transfers_.push_back({from.at(i * kSlot), to.at(i * kSlot), element_bytes, nest});
  }
  void add(std::size_t i, Place& from, Place& to, std::uint32_t element_bytes, const StridedLoops& nest) {
    const ElementFormat format = format_of_bytes(element_bytes);
    copy_strided({&nest, 1}, format, from.slot(i), format, to.slot(i));
    send(i, from, to, element_bytes, nest);
  }
  void add(std::size_t i, Place& from, Place& to) {
    const Nest nest = test::random_nest(random_, {.elements = 700, .memory_bytes = kSlot});
    if (nest.element_bytes != 8) return add(i, from, to, nest.element_bytes, loops_of(nest));
    // The host knows no such format.
    test::move(nest, from.slot(i), to.slot(i));
    send(i, from, to, 8, loops_of(nest));
  }

  // Sends what was added, and compares everything.
  void expect_as_on_the_host() {
    stream().Launch(Job::strided(transfers_), {});
    transfers_.clear();
    for (Place* place : {&on_a_, &on_b_}) {
      stream().Launch(Job::from_device(readback_.data(), place == &on_a_ ? a_ : b_, kMemory), {});
      stream().Synchronize(test::soon());
      ASSERT_EQ(std::memcmp(readback_.data(), place->expected.data(), kMemory), 0) << "memory of the card";
    }
    ASSERT_EQ(std::memcmp(back_.data(), returned_.expected.data(), kMemory), 0) << "memory of the host";
  }

  PinnedBuffer out_ = context().host_memory().allocate(kMemory);
  PinnedBuffer back_ = context().host_memory().allocate(kMemory);
  PinnedBuffer readback_ = context().host_memory().allocate(kMemory);
  AllocationIndex a_ = allocate(kMemory);
  AllocationIndex b_ = allocate(kMemory);
  Place host_, returned_, on_a_, on_b_;
  std::mt19937_64 random_{2026};
  std::vector<StridedTransfer> transfers_;
};

TEST_F(StridedOnTheCard, RandomNestsAreWhatTheHostMakesOfThem) {
  std::size_t done = 0;
  while (done < cases() / 4 && !HasFatalFailure()) {
    for (std::size_t i = 0; i < kBatch; ++i, done += 3) {
      add(i, host_, on_a_);
      add(i, on_a_, on_b_);
      add(i, on_b_, returned_);
    }
    expect_as_on_the_host();
  }
  RecordProperty("nests", std::to_string(done));
}

// ---- tensors --------------------------------------------------------------------------------------------------------

struct RandomTensor {
  HostShape shape;
  SpyreTensorLayout layout;
  DeviceView view;
  Dims host_stride;  // of the view's elements on the host
};

std::int64_t between(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

Dims permuted_strides(std::mt19937_64& random, const Dims& size) {
  std::vector<std::size_t> order(size.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random() % 2 == 0) std::ranges::shuffle(order, random);
  Dims stride(size.size());
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    stride[order[i]] = step;
    step *= size[order[i]];
  }
  return stride;
}

// A slice of it, or all, with two dimensions exchanged now and then.
DeviceView random_view(std::mt19937_64& random, const HostShape& shape) {
  DeviceView view = DeviceView::whole(shape);
  for (std::size_t d = 0; d < view.size.size(); ++d) {
    if (random() % 3 != 0) continue;
    const std::int64_t step = between(random, 1, std::min<std::int64_t>(3, view.size[d]));
    const std::int64_t first = between(random, 0, view.size[d] - 1);
    view.offset += first * view.stride[d];
    view.size[d] = (view.size[d] - first + step - 1) / step;
    view.stride[d] *= step;
  }
  if (view.size.size() > 1 && random() % 3 == 0) {
    std::swap(view.size[0], view.size.back());
    std::swap(view.stride[0], view.stride.back());
  }
  return view;
}

RandomTensor random_tensor(std::mt19937_64& random) {
  Dims size;
  std::int64_t left = 1500;
  for (std::int64_t rank = between(random, 1, 4); rank > 0; --rank) {
    size.push_back(between(random, 1, std::min<std::int64_t>(left, random() % 2 == 0 ? 9 : 140)));
    left = std::max<std::int64_t>(1, left / size.back());
  }
  Dims order(size.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  if (random() % 2 == 0) std::ranges::shuffle(order, random);
  const HostShape shape = HostShape::contiguous(DataType::Float16, size);
  RandomTensor tensor{shape, SpyreTensorLayout::of(shape, order), random_view(random, shape), {}};
  tensor.host_stride = permuted_strides(random, tensor.view.size);
  return tensor;
}

TEST_F(StridedOnTheCard, TensorsOfAllLayoutsAndViewsAreWhatTheHostMakesOfThem) {
  std::size_t done = 0;
  while (done < cases() && !HasFatalFailure()) {
    for (std::size_t i = 0; i < kBatch;) {
      const RandomTensor tensor = random_tensor(random_);
      if (tensor.layout.device_bytes() > kSlot) continue;
      const bool out = random_() % 2 == 0;
      const auto nests = describe_transfer(tensor.layout, tensor.view, tensor.host_stride,
                                           out ? TransferDirection::ToDevice : TransferDirection::FromDevice);
      for (const StridedLoops& nest : nests) add(i, out ? host_ : on_a_, out ? on_a_ : returned_, 2, nest);
      ++i, ++done;
    }
    expect_as_on_the_host();
  }
  RecordProperty("tensors", std::to_string(done));
}

}  // namespace
}  // namespace svp
