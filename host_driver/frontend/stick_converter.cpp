// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/stick_converter.hpp"

#include <algorithm>
#include <utility>

#include "host_driver/tensor/clip_loops.hpp"
#include "host_driver/tensor/strided_copy.hpp"

namespace svp {

// Staging counts from a run's beginning.
class StickConverter::OfRun final : public StagedConverter {
 public:
  OfRun(StickConverter& whole, const StickRun& run) : whole_(&whole), run_(run) {}
  const StickRun& run() const { return run_; }

  void fill_chunk(std::uint64_t offset, std::span<std::byte> chunk) noexcept override {
    whole_->fill(stick_at(offset), chunk);
  }
  void drain_chunk(std::uint64_t offset, std::span<const std::byte> chunk) noexcept override {
    whole_->drain(stick_at(offset), chunk);
  }

 private:
  std::int64_t stick_at(std::uint64_t offset) const {
    return run_.first + static_cast<std::int64_t>(offset / wire::kStickBytes);
  }

  StickConverter* whole_;
  StickRun run_;
};

StickConverter::StickConverter(std::vector<StridedLoops> nests, std::span<const StickRun> runs, Direction direction,
                               const HostSide& host, const CardSide& card)
    : nests_(std::move(nests)), direction_(direction), host_(host), card_(card) {
  runs_.reserve(runs.size());
  for (const StickRun& run : runs) runs_.emplace_back(*this, run);
}

StickConverter::~StickConverter() = default;

std::vector<Step> StickConverter::steps() {
  std::vector<Step> steps;
  steps.reserve(runs_.size());
  for (OfRun& run : runs_) {
    steps.emplace_back(DMA{.allocation_index = card_.tensor,
                           .size = static_cast<std::uint64_t>(run.run().count) * wire::kStickBytes,
                           .direction = direction_,
                           .offset = static_cast<std::uint64_t>(run.run().first) * wire::kStickBytes,
                           .converter = &run});
  }
  return steps;
}

void StickConverter::require_converted() const {
  if (failure_) std::rethrow_exception(failure_);
}

std::vector<StridedLoops> StickConverter::loops_of(std::int64_t first_stick, std::size_t bytes) const {
  const std::int64_t first = first_stick * card_.elements_per_stick;
  const auto sticks = static_cast<std::int64_t>(bytes / wire::kStickBytes);
  return clipped(nests_, card_side(), first, first + sticks * card_.elements_per_stick);
}

void StickConverter::fill(std::int64_t first, std::span<std::byte> sticks) noexcept try {
  const auto loops = loops_of(first, sticks.size());
  std::uint64_t elements = 0;
  for (const StridedLoops& nest : loops) elements += static_cast<std::uint64_t>(nest.element_count());
  // Padding. A nest to the card names no element twice.
  if (elements * bits_of(card_.format) != sticks.size() * 8) std::ranges::fill(sticks, std::byte{0});
  copy_strided(loops, host_.format, host_.memory, card_.format, sticks);
} catch (...) {
  failure_ = std::current_exception();
}

void StickConverter::drain(std::int64_t first, std::span<const std::byte> sticks) noexcept try {
  copy_strided(loops_of(first, sticks.size()), card_.format, sticks, host_.format, host_.memory);
} catch (...) {
  failure_ = std::current_exception();
}

}  // namespace svp
