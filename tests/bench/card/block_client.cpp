// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/block_client.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace bench {

namespace {

using svp::test::Blocks;

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

}  // namespace

wire::ControlBlock to_device_block(const svp::PinnedBuffer& from, const svp::ResolvedAllocation& to,
                                   std::uint64_t bytes) {
  return Blocks::dma(endpoint(from), endpoint(to), bytes);
}
wire::ControlBlock from_device_block(const svp::ResolvedAllocation& from, const svp::PinnedBuffer& to,
                                     std::uint64_t bytes) {
  return Blocks::dma(endpoint(from), endpoint(to), bytes);
}
wire::ControlBlock compute_block(const svp::Job& job, const svp::FlexAllocator& allocator) {
  // The card chooses the core.
  return Blocks::launch(endpoint(allocator.resolve(job.allocation_index())), job.binary()->image().size(), 0);
}

svp::Job load_empty_kernel(svp::Context& card) {
  svp::ExecutionPlan plan;
  plan.add(svp::Job(svp::CompiledKernel(card.kernel("empty"), {})));
  card.load(plan);
  return plan.jobs().front();
}

wire::ControlBlock call_block(svp::Context& card, const wire::ControlBlock& compute, std::uint32_t times) {
  wire::ControlBlock entry = compute;
  entry.header = {};
  entry.header.magic = wire::kControlBlockMagic;
  entry.header.sticks = static_cast<std::uint8_t>(wire::required_sticks(compute));
  entry.header.opcode = compute.header.opcode;
  const svp::PinnedBuffer source = card.host_memory().allocate(times * sizeof entry);
  for (std::uint32_t i = 0; i < times; ++i) std::memcpy(source.data() + i * sizeof entry, &entry, sizeof entry);
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::BufferCreate;
  request.arguments.buffer_create = {source.window_offset(), times, 0};
  const auto reply = card.device().admin(request);
  if (!reply) throw svp::Error(reply.error());
  require(reply->outcome == wire::Outcome::Ok, "the card refused a command buffer");
  wire::ControlBlock call{};
  call.header.opcode = times == 1 ? wire::Opcode::Prepared : wire::Opcode::Call;
  call.payload.call = {.buffer = reply->values.buffer.buffer,
                       .reserved0 = 0,
                       .epoch = reply->values.buffer.epoch,
                       .signal_base = 0,
                       .reserved = {}};
  return call;
}

void BlockClient::wait_ended(std::uint64_t target) {
  if (stream_.wait_ended(target, kBound)) return;
  if (const auto failure = device().failure()) throw svp::Error(*failure);
  require(false, "control blocks did not end in time");
}

void BlockClient::submit(std::span<const wire::ControlBlock> blocks) {
  require(blocks.size() <= kMaxSubmit, "more control blocks than one submission of a client takes");
  std::array<svp::ControlBlockRequest, kMaxSubmit> requests;
  for (std::size_t i = 0; i < blocks.size(); ++i) requests[i] = stream_.request(blocks[i]);
  const std::size_t taken = stream_.submit(std::span(requests).first(blocks.size()));
  require(taken == blocks.size(), "no credit for a control block");
}

void BlockClient::require_all_ok() const {
  require(not_ok() == 0, "a control block ended " + std::string(wire::name(stream_.sink().first_bad())));
}

void BlockClient::run(const wire::ControlBlock& block) {
  submit(block);
  wait_all();
  require_all_ok();
}

void BlockClient::run_many(const wire::ControlBlock& block, std::size_t count) {
  std::array<svp::ControlBlockRequest, wire::kStreamCredits> requests;
  requests.fill(stream_.request(block));
  // Half of the credits at a time: one half is under way while the next is being written.
  constexpr std::size_t kBatch = wire::kStreamCredits / 2;
  while (count != 0) {
    count -= stream_.submit(std::span(requests).first(std::min(count, kBatch)));
    if (submitted() > kBatch) wait_ended(submitted() - kBatch);
  }
  wait_all();
  require_all_ok();
}

}  // namespace bench
