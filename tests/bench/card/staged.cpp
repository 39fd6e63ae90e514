// SPDX-License-Identifier: Apache-2.0
// P5, host memory of other kinds: staged transfers against pinned ones, tensors that pinned memory has no room for
// against a conversion in ordinary memory that is then staged, and what registering costs.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "host_driver/tensor/stickify.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

using svp::FlexStream;
using svp::Job;

constexpr std::uint64_t kLinear = 32 * wire::kMiB;
// More than a copy takes of pinned memory: 96 MiB on both sides.
constexpr std::int64_t kRows = 24'576;
constexpr std::int64_t kColumns = 2'048;
constexpr std::uint64_t kTensor = kRows * kColumns * 2;

class StagedBench {
 public:
  explicit StagedBench(Session& session)
      : session_(session),
        card_(session.card()),
        stream_(card_.runtime().default_stream()),
        pinned_(card_.host_memory().allocate(kLinear)),
        pages_(std::aligned_alloc(4096, kLinear), std::free),
        place_(card_.allocator().allocate(kLinear)) {
    for (std::size_t i = 0; i + 8 <= kTensor; i += 8) {
      const std::uint64_t word = random_() & 0x3BFF3BFF3BFF3BFF;  // finite
      std::memcpy(&values_[i], &word, 8);
    }
    std::memcpy(pages_.get(), values_.data(), kLinear);
    std::memcpy(pinned_.data(), values_.data(), kLinear);
  }

  void measure_linear() {
    Row to = row("staged DMA to the card, 32.0 MiB of pageable memory", "pinned, same size");
    Row from = row("staged DMA from the card, 32.0 MiB of pageable memory", "pinned, same size");
    Row registered = row("DMA to the card, 32.0 MiB of registered memory", "pinned, same size");
    Row cost = row("register and unregister 32.0 MiB", "memcpy of the same size, twice");
    cost.unit = Unit::Nanoseconds;
    for (unsigned round = 0; round < session_.options().rounds; ++round) {
      to.add(bandwidth(kLinear, [&] { to_card(pages_.get()); }), bandwidth(kLinear, [&] { to_card(pinned_.data()); }));
      from.add(bandwidth(kLinear, [&] { from_card(pages_.get()); }),
               bandwidth(kLinear, [&] { from_card(pinned_.data()); }));
      require(std::memcmp(pages_.get(), values_.data(), kLinear) == 0, "other bytes came back");
      cost.add(time([&] { register_pages(), unregister_pages(); }), time([&] {
                 std::memcpy(pinned_.data(), pages_.get(), kLinear);
                 std::memcpy(pages_.get(), pinned_.data(), kLinear);
               }));
      register_pages();
      registered.add(bandwidth(kLinear, [&] { to_card(pages_.get()); }),
                     bandwidth(kLinear, [&] { to_card(pinned_.data()); }));
      unregister_pages();
    }
    for (Row* each : {&to, &from, &registered, &cost}) session_.add(std::move(*each));
  }

  void measure_tensors() {
    const auto shape = svp::HostShape::contiguous(svp::DataType::Float16, {kRows, kColumns});
    const svp::SpyreTensor tensor = card_.empty(svp::DataType::Float16, {kRows, kColumns});
    std::vector<std::byte> back(kTensor);
    Row to = row("copy of a float16 tensor to the card, 96.0 MiB", "converted in ordinary memory, then staged");
    Row from = row("copy of a float16 tensor from the card, 96.0 MiB", "staged to ordinary memory, then converted");
    const auto counted = [&] { return card_.runtime().transfer_counters().snapshot().copied_bytes; };
    const auto before = counted();
    card_.copy(tensor, svp::ConstHostTensor{shape, values_}, card_.default_stream());
    card_.to_host(tensor, {shape, back});
    const double copies = static_cast<double>(counted() - before) / (2.0 * kTensor);
    session_.report().note(fmt::format("P5: a byte of a 96 MiB tensor is written {:.2f} times by the host", copies));
    for (unsigned round = 0; round < session_.options().rounds; ++round) {
      to.add(bandwidth(kTensor,
                       [&] {
                         card_.copy(tensor, svp::ConstHostTensor{shape, values_}, card_.default_stream());
                         stream_.Synchronize();
                       }),
             bandwidth(kTensor, [&] {
               const auto sticks = std::make_unique_for_overwrite<std::byte[]>(kTensor);
               svp::stickify(shape, values_, tensor.layout(), {sticks.get(), kTensor});
               stream_.Launch(Job::to_device(sticks.get(), tensor.allocation_index(), kTensor), {});
               stream_.Synchronize();
             }));
      std::ranges::fill(back, std::byte{0});
      from.add(bandwidth(kTensor, [&] { card_.to_host(tensor, {shape, back}); }), bandwidth(kTensor, [&] {
                 const auto sticks = std::make_unique_for_overwrite<std::byte[]>(kTensor);
                 stream_.Launch(Job::from_device(sticks.get(), tensor.allocation_index(), kTensor), {});
                 stream_.Synchronize();
                 svp::unstickify(tensor.layout(), {sticks.get(), kTensor}, shape, again_);
               }));
      require(back == again_, "the two ways gave different elements");
    }
    session_.add(std::move(to));
    session_.add(std::move(from));
  }

 private:
  static Row row(const char* what, const char* limit) {
    return {
        .id = "P5", .what = what, .unit = Unit::BytesPerSecond, .limit = limit, .checked = "every byte, each round"};
  }
  std::span<std::byte> pages() const { return {static_cast<std::byte*>(pages_.get()), kLinear}; }
  void register_pages() { card_.host_memory().register_memory(pages()); }
  void unregister_pages() { card_.host_memory().unregister_memory(pages_.get()); }
  void to_card(const void* memory) {
    stream_.Launch(Job::to_device(memory, place_->allocation_index(), kLinear), {});
    stream_.Synchronize();
  }
  void from_card(void* memory) {
    stream_.Launch(Job::from_device(memory, place_->allocation_index(), kLinear), {});
    stream_.Synchronize();
  }
  template <typename Run>
  double time(Run run) {
    return median_time(session_.amount(5), run);
  }
  template <typename Run>
  double bandwidth(std::uint64_t bytes, Run run) {
    return static_cast<double>(bytes) / time(run) * 1e9;
  }

  Session& session_;
  svp::Context& card_;
  FlexStream& stream_;
  svp::PinnedBuffer pinned_;
  std::unique_ptr<void, decltype(&std::free)> pages_;
  std::shared_ptr<const svp::DeviceStorage> place_;
  std::mt19937_64 random_{std::random_device{}()};
  std::vector<std::byte> values_ = std::vector<std::byte>(kTensor);
  std::vector<std::byte> again_ = std::vector<std::byte>(kTensor);
};

}  // namespace

void measure_staged(Session& session) {
  StagedBench bench(session);
  bench.measure_linear();
  bench.measure_tensors();
}

}  // namespace bench
