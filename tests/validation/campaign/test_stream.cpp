// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/test_stream.hpp"

#include <algorithm>
#include <cstring>

#include "shared/memory_order.hpp"
#include "shared/window.hpp"
#include "tests/validation/bounds.hpp"

namespace svp::campaign {

using Clock = Device::Clock;

namespace {
constexpr auto kLoadBound = campaign_bounds::kLoad;
}

std::string ending(const std::optional<wire::Completion>& end) {
  if (!end) return "did not end";
  return std::string(wire::name(end->outcome)) + ", " + std::string(wire::name(end->status));
}

TestStream::TestStream(Device& device, StreamPriority priority)
    : device_(device), stream_(value_or_throw(device.open_stream(priority))) {}

// A block that the card keeps would call this when it is gone: then the whole function goes first.
TestStream::~TestStream() {
  if (ended() == submitted_) {
    if (!device_.failure()) (void)device_.close_stream(stream_);
  } else if (device_.failure() || !device_.reset_stream(stream_) || ended() != submitted_) {
    device_.close();
  }
}

void TestStream::on_completion(const wire::Completion& completion) noexcept {
  const std::lock_guard lock(mutex_);
  all_.push_back(completion);
  count_.store(all_.size(), std::memory_order_release);
}

bool TestStream::submit(std::span<const wire::ControlBlock> blocks, bool verbatim) {
  std::vector<ControlBlockRequest> requests;
  for (const auto& block : blocks) requests.push_back({&block, this});
  const std::size_t taken =
      value_or_throw(verbatim ? device_.submit_verbatim(stream_, requests) : device_.submit(stream_, requests));
  submitted_ += taken;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < taken && trace_.size() < kTracedBlocks; ++i) {
    const auto& block = blocks[i];
    const bool moves = block.header.opcode == wire::Opcode::Dma || block.header.opcode == wire::Opcode::Fill;
    const bool is_dma = block.header.opcode == wire::Opcode::Dma;
    trace_.push_back({.stream = stream_,
                      .opcode = block.header.opcode,
                      .bytes = !moves   ? 0
                               : is_dma ? block.payload.dma.bytes
                                        : block.payload.fill.bytes});
  }
  return taken == blocks.size();
}

bool TestStream::wait_ended(std::size_t count, std::chrono::nanoseconds bound) {
  return device_.wait_until([&] { return ended() >= count; }, Clock::now() + bound) == WaitStatus::Done;
}

std::optional<wire::Completion> TestStream::run(const wire::ControlBlock& block, std::chrono::nanoseconds bound) {
  if (!submit(block) || !wait_all(bound)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return all_.back();
}

bool TestStream::wait_started(std::uint64_t sequence, std::chrono::nanoseconds bound) {
  const std::byte* window = device_.host_memory().data() - device_.host_memory_offset();
  const auto* words = reinterpret_cast<const std::uint64_t*>(window + wire::kStartedSequences.offset);
  return device_.wait_until([&] { return wire::load_acquire(words[stream_]) >= sequence; }, Clock::now() + bound) ==
         WaitStatus::Done;
}

Expected<void> TestStream::reset() { return device_.reset_stream(stream_); }

std::vector<wire::Completion> TestStream::endings(std::size_t from) const {
  const std::lock_guard lock(mutex_);
  return {all_.begin() + static_cast<std::ptrdiff_t>(std::min(from, all_.size())), all_.end()};
}

// In order within a stream: the n-th completion is the n-th block's.
std::vector<TracedBlock> TestStream::trace() const {
  const std::lock_guard lock(mutex_);
  std::vector<TracedBlock> blocks = trace_;
  for (std::size_t i = 0; i < std::min(blocks.size(), all_.size()); ++i) {
    blocks[i].ended = true;
    blocks[i].outcome = all_[i].outcome;
    blocks[i].status = all_[i].status;
    blocks[i].start_time = all_[i].start_time;
    blocks[i].end_time = all_[i].end_time;
  }
  return blocks;
}

std::size_t TestStream::ended_with(wire::Outcome outcome) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(all_, [&](const wire::Completion& one) { return one.outcome == outcome; }));
}

BlockBuilder::BlockBuilder(Device& device)
    : device_(device),
      tensor_(value_or_throw(device.acquire_region(RegionType::Tensor, kRegionBytes))),
      program_(value_or_throw(device.acquire_region(RegionType::Program, kRegionBytes))) {}

wire::Endpoint BlockBuilder::host(std::uint64_t offset) const {
  return {0, device_.host_memory_offset() + offset, 0, wire::EndpointKind::HostMemory, {}};
}

wire::Endpoint BlockBuilder::in(const Region& region, std::uint64_t offset) {
  return {region.base.region_id, offset, region.generation, wire::EndpointKind::Region, {}};
}

wire::ControlBlock BlockBuilder::nop() {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Nop;
  return block;
}

wire::ControlBlock BlockBuilder::dma(const wire::Endpoint& from, const wire::Endpoint& to, std::uint64_t bytes) {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Dma;
  block.payload.dma = {.source = from, .destination = to, .bytes = bytes, .checksum = 0, .flags = 0};
  return block;
}

wire::ControlBlock BlockBuilder::fill(const wire::Endpoint& at, std::uint64_t bytes, std::uint64_t pattern) {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Fill;
  block.payload.fill = {.destination = at, .bytes = bytes, .pattern = pattern, .reserved = {}};
  return block;
}

wire::ControlBlock BlockBuilder::compute(std::uint64_t offset, std::uint64_t bytes, std::uint64_t budget_slices,
                                         std::uint64_t core_mask) const {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Compute;
  block.header.budget = budget_slices;
  block.payload.compute.image = in(program_, offset);
  block.payload.compute.image_bytes = bytes;
  block.payload.compute.core_mask = core_mask;
  return block;
}

void BlockBuilder::load(TestStream& stream, std::uint64_t offset, std::span<const std::byte> image) const {
  std::memcpy(device_.host_memory().data() + kStagingAt, image.data(), image.size());
  const auto ended = stream.run(dma(host(kStagingAt), in(program_, offset), image.size()), kLoadBound);
  if (ended && ended->outcome == wire::Outcome::Ok) return;
  throw Error({.layer = Layer::Driver,
               .source = "a kernel's image",
               .outcome = ended ? ended->outcome : wire::Outcome::Timeout,
               .recoverable = false,
               .next_step = "start the scenario on a new card",
               .message = "a kernel's image could not be loaded"});
}

std::span<std::uint64_t> BlockBuilder::host_words(std::uint64_t offset, std::uint64_t bytes) const {
  return {reinterpret_cast<std::uint64_t*>(device_.host_memory().data() + offset), bytes / 8};
}

}  // namespace svp::campaign
