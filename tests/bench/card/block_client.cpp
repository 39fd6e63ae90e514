// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/block_client.hpp"

#include <algorithm>
#include <array>

namespace bench {

namespace {

wire::Endpoint endpoint(const svp::PinnedBuffer& memory) {
  return {.region_id = 0,
          .offset = memory.window_offset(),
          .generation = 0,
          .kind = wire::EndpointKind::HostMemory,
          .reserved = {}};
}
wire::Endpoint endpoint(const svp::ResolvedAllocation& memory) {
  return {.region_id = memory.address.region_id,
          .offset = memory.address.offset,
          .generation = memory.region_generation,
          .kind = wire::EndpointKind::Region,
          .reserved = {}};
}
wire::ControlBlock transfer(const wire::Endpoint& from, const wire::Endpoint& to, std::uint64_t bytes) {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Dma;
  block.payload.dma.source = from;
  block.payload.dma.destination = to;
  block.payload.dma.bytes = bytes;
  return block;
}

}  // namespace

wire::ControlBlock nop_block() {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Nop;
  return block;
}
wire::ControlBlock to_device_block(const svp::PinnedBuffer& from, const svp::ResolvedAllocation& to,
                                   std::uint64_t bytes) {
  return transfer(endpoint(from), endpoint(to), bytes);
}
wire::ControlBlock from_device_block(const svp::ResolvedAllocation& from, const svp::PinnedBuffer& to,
                                     std::uint64_t bytes) {
  return transfer(endpoint(from), endpoint(to), bytes);
}
wire::ControlBlock compute_block(const svp::Job& job, const svp::FlexAllocator& allocator) {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Compute;
  block.payload.compute.image = endpoint(allocator.resolve(job.allocation_index()));
  block.payload.compute.image_bytes = job.binary()->image().size();
  return block;
}

BlockClient::BlockClient(svp::Device& device)
    : device_(device), stream_(svp::value_or_throw(device.open_stream(svp::StreamPriority::Low))) {}

// What is still running after a failed measurement must not call a sink that is gone.
BlockClient::~BlockClient() {
  if (ended() != submitted_) (void)device_.reset_stream(stream_);
  (void)device_.close_stream(stream_);
}

void BlockClient::on_completion(const wire::Completion& completion) noexcept {
  if (completion.outcome != wire::Outcome::Ok && not_ok_.fetch_add(1) == 0) first_bad_ = completion.status;
  last_ticks_.store(completion.end_time - completion.start_time, std::memory_order_relaxed);
  ended_.fetch_add(1, std::memory_order_release);
}

void BlockClient::wait_ended(std::uint64_t target) {
  const auto status = device_.wait_until([&] { return ended() >= target; }, svp::Device::Clock::now() + kBound);
  if (const auto failure = device_.failure(); status == svp::WaitStatus::Failed && failure) throw svp::Error(*failure);
  require(status == svp::WaitStatus::Done, "control blocks did not end in time");
}

void BlockClient::submit(std::span<const wire::ControlBlock> blocks) {
  require(blocks.size() <= kMaxSubmit, "more control blocks than one submission of a client takes");
  std::array<svp::ControlBlockRequest, kMaxSubmit> requests;
  for (std::size_t i = 0; i < blocks.size(); ++i) requests[i] = {&blocks[i], this};
  const std::size_t taken = svp::value_or_throw(device_.submit(stream_, std::span(requests).first(blocks.size())));
  submitted_ += taken;
  require(taken == blocks.size(), "no credit for a control block");
}

void BlockClient::wait_all() { wait_ended(submitted_); }

void BlockClient::run(const wire::ControlBlock& block) {
  submit(block);
  wait_ended(submitted_);
  require(not_ok() == 0, "a control block ended " + std::string(wire::name(first_bad_.load())));
}

void BlockClient::run_many(const wire::ControlBlock& block, std::size_t count) {
  std::array<svp::ControlBlockRequest, wire::kStreamCredits> requests;
  requests.fill({&block, this});
  // Half of the credits at a time: one half is under way while the next is being written.
  constexpr std::size_t kBatch = wire::kStreamCredits / 2;
  while (count != 0) {
    const std::size_t want = std::min(count, kBatch);
    const std::size_t taken = svp::value_or_throw(device_.submit(stream_, std::span(requests).first(want)));
    submitted_ += taken;
    count -= taken;
    if (submitted_ > kBatch) wait_ended(submitted_ - kBatch);
  }
  wait_ended(submitted_);
  require(not_ok() == 0, "a control block ended " + std::string(wire::name(first_bad_.load())));
}

}  // namespace bench
