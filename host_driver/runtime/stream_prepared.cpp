// SPDX-License-Identifier: Apache-2.0
// Preparing launches, and patching what was prepared.
#include <cstring>
#include <string>

#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "host_driver/runtime/prepared_writer.hpp"
#include "host_driver/runtime/stream_channel.hpp"

namespace svp {
namespace {

[[noreturn]] void refuse(std::string what, std::string next_step) {
  throw InvalidArgument("prepared", std::move(what), std::move(next_step));
}

}  // namespace

std::shared_ptr<PreparedLaunches> FlexStream::Prepare(std::span<const LaunchRequest> requests) {
  return Prepare(std::vector<CapturedStep>(requests.begin(), requests.end()));
}

std::shared_ptr<PreparedLaunches> FlexStream::Prepare(std::span<const CapturedStep> steps) {
  function_.require_own_process();
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  // While it lasts no recovery begins: what is looked up stays so.
  StreamChannel::Reservation reservation(channel_);
  channel_.reserve(reservation, {}, 0, recoveries);
  const LaunchSite site = function_.launch_site(channel_.stream());
  PreparedWriter writer;
  writer.add(site, steps);
  return writer.finish(function_);
}

std::uint64_t FlexStream::Patch(PreparedLaunches& prepared, std::size_t launch, std::span<const Argument> arguments,
                                std::shared_ptr<const void> keep_alive) {
  function_.require_own_process();
  refuse_in_capture("a patch");
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  const std::shared_ptr<PreparedLaunches::State> before = prepared.current(function_);
  if (launch >= before->held.size()) {
    refuse("launch " + std::to_string(launch) + " of " + std::to_string(before->held.size()) + " is to be patched",
           "count from 0");
  }
  if (before->patch.load(std::memory_order_acquire) != PreparedLaunches::State::Patch::Done) {
    throw Error({.layer = Layer::Driver,
                 .source = "prepared launches",
                 .outcome = wire::Outcome::Rejected,
                 .recoverable = true,
                 .next_step = "synchronise the stream of the last patch, then patch again",
                 .message = "the last patch of the prepared launches has not ended",
                 .status = wire::Status::Busy});
  }
  const auto& old = *before->held[launch];
  const LaunchOptions options{
      .allow_tiled_launch = old.allow_tiled_launch, .core_mask = old.core_mask, .budget_slices = old.budget_slices};
  auto held =
      std::make_shared<PreparedLaunches::Held>(PreparedLaunches::Held{.job = old.job,
                                                                      .uses = {},
                                                                      .operands = {},
                                                                      .keep_alive = std::move(keep_alive),
                                                                      .allow_tiled_launch = old.allow_tiled_launch,
                                                                      .core_mask = old.core_mask,
                                                                      .budget_slices = old.budget_slices});
  std::vector<PreparedBlock> blocks;
  StreamChannel::Reservation reservation(channel_);
  channel_.reserve(reservation, {}, 0, recoveries);
  held->operands =
      write_prepared(function_.launch_site(channel_.stream()), held->job, arguments, options, held->uses, blocks);
  auto state = std::make_shared<PreparedLaunches::State>();
  state->awaited = before->awaited;
  state->awaited.insert(state->awaited.end(), held->uses.awaited().begin(), held->uses.awaited().end());
  state->held = before->held;
  state->held[launch] = std::move(held);
  state->blocks = before->blocks;
  state->buffers = before->buffers;
  state->steps = before->steps;
  state->slices = before->slices;
  state->before = before;
  state->patch.store(PreparedLaunches::State::Patch::UnderWay, std::memory_order_relaxed);
  std::vector<const PreparedBlock*> changed;
  std::size_t next = 0;
  for (PreparedBlock& block : state->blocks) {
    if (block.request != launch) continue;
    const bool fits = next < blocks.size() && blocks[next].block.header.opcode == block.block.header.opcode &&
                      blocks[next].tensor.size() <= block.tensor.size();
    if (!fits) refuse("the operands need other blocks than those that were prepared", "prepare it again");
    PreparedBlock& with = blocks[next++];
    block.block = with.block;
    block.tensor.swap(with.tensor);
    block.windows = with.windows;
    if (!block.tensor.empty()) block.block.payload.compute.correction.offset = block.data_offset;
    changed.push_back(&block);
  }
  if (next != blocks.size()) refuse("the operands need more blocks than were prepared", "prepare it again");
  const std::uint64_t number = channel_.patch_prepared(reservation, state, changed);
  const std::lock_guard guard(prepared.mutex_);
  prepared.state_ = std::move(state);
  return number;
}

// ---- the channel's part ---------------------------------------------------------------------------------------------

std::uint64_t StreamChannel::patch_prepared(Reservation& reservation, std::shared_ptr<PreparedLaunches::State> state,
                                            std::span<const PreparedBlock* const> blocks) {
  const Locked lock(*this);
  check_usable();
  for (const PreparedBlock* block : blocks) {
    Unit* const unit = take_unit();
    reservation.units.push(unit);
    const std::uint64_t bytes = wire::kBufferBlockBytes + block->tensor.size();
    unit->correction = corrections_->take(bytes);
    std::memcpy(unit->correction.bytes, &block->block, wire::kBufferBlockBytes);
    if (!block->tensor.empty()) {
      std::memcpy(unit->correction.bytes + wire::kBufferBlockBytes, block->tensor.data(), block->tensor.size());
    }
    unit->kind = Unit::Kind::Block;
    unit->tile = block->tile;
    unit->step = block->step;
    unit->block.header = {};
    unit->block.header.opcode = wire::Opcode::Patch;
    const CardBuffer& buffer = *(*state->buffers)[block->buffer];
    unit->block.payload.patch = {.buffer = buffer.id(),
                                 .block = block->index,
                                 .epoch = buffer.epoch(),
                                 .offset = unit->correction.window_offset,
                                 .bytes = bytes,
                                 .reserved = {}};
  }
  reservation.count = blocks.size();
  reservation.launch->observer = state.get();
  reservation.launch->kernel = nullptr;
  reservation.launch->keep_alive = std::move(state);
  enqueue(reservation);
  pump();
  return launched_;
}

StreamFailure StreamChannel::describe(const Unit& unit, const wire::Completion& completion) {
  const PreparedBlock* const block =
      unit.prepared != nullptr ? unit.prepared->find(unit.step, completion.block) : nullptr;
  StreamFailure failure;
  if (block == nullptr) {
    failure =
        describe_failure({unit.block, unit.windows, unit.launch->kernel, unit.launch->operands.get()}, completion);
  } else {
    const PreparedLaunches::Held& held = *unit.prepared->held[block->request];
    failure =
        describe_failure({block->block, block->windows, held.job.binary().get(), held.operands.get()}, completion);
  }
  failure.tile = block != nullptr ? block->tile : unit.tile;
  failure.step = block != nullptr ? block->step : unit.step;
  return failure;
}

}  // namespace svp
