// SPDX-License-Identifier: Apache-2.0
// Preparing launches, launching what was prepared, and patching it.
#include <algorithm>
#include <cstring>
#include <string>

#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/launch_plan.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {
namespace {

[[noreturn]] void refuse(std::string what, std::string next_step) {
  throw InvalidArgument("prepared", std::move(what), std::move(next_step));
}

void check_loaded(const Job& job, const FlexAllocator& allocator) {
  if (job.binary() == nullptr) return;
  if (job.program() == nullptr || job.program()->allocator().get() != &allocator) {
    throw InvalidArgument("job", "kernel " + job.binary()->name() + " is not loaded on this device",
                          "load the plan (Context::load())");
  }
}

// A block of a walk, as it stands in a command buffer: without what is the stream's, its tensor in the buffer's data.
PreparedBlock in_buffer(const Unit& unit, std::span<const std::byte> tensor) {
  PreparedBlock result;
  result.windows = unit.windows;
  result.tile = unit.tile;
  result.step = unit.step;
  const unsigned sticks = wire::required_sticks(unit.block);
  std::memcpy(&result.block, &unit.block, sticks * wire::kStickBytes);
  const std::uint64_t budget = unit.block.header.budget;
  result.block.header = {};
  result.block.header.magic = wire::kControlBlockMagic;
  result.block.header.sticks = static_cast<std::uint8_t>(sticks);
  result.block.header.opcode = unit.block.header.opcode;
  result.block.header.budget = budget;
  if (unit.block.header.opcode != wire::Opcode::Compute || tensor.empty()) return result;
  result.tensor.assign(tensor.begin(), tensor.end());
  result.tensor.resize(wire::align_up(tensor.size(), wire::kStickBytes));
  result.block.payload.compute.correction = {
      .region_id = 0, .offset = 0, .generation = 0, .kind = wire::EndpointKind::BufferData, .reserved = {}};
  return result;
}

// Writes the blocks of one launch: all tiles, all steps of its plan but the transfer of the correction tensor.
class LaunchWriter {
 public:
  LaunchWriter(const LaunchSite& site, const Job& job, std::span<const Argument> arguments,
               const LaunchOptions& options, AllocationUses& uses)
      : site_(site),
        job_(job),
        options_(options),
        uses_(uses),
        size_(size_of_walk(site.allocator, job)),
        tensor_(wire::kMaxCorrectionBytes),
        units_(size_.blocks) {
    check_loaded(job, site.allocator);
    if (job.binary() != nullptr) {
      operands_.emplace(site.allocator, job, arguments, options.allow_tiled_launch, uses);
    } else if (!arguments.empty()) {
      throw InvalidArgument("arguments", "a job of transfers takes no operands", "prepare it without");
    }
  }

  void write(std::vector<PreparedBlock>& blocks) {
    const std::uint32_t tiles = operands_ ? operands_->tiling().tiles : 1;
    if (tiles > kMostTiles) refuse(std::to_string(tiles) + " tiles are more than are prepared", "launch it as it is");
    for (std::uint32_t tile = 0; tile < tiles; ++tile) write_tile(tile, blocks);
  }

 private:
  static constexpr std::uint32_t kMostTiles = 1024;

  void write_tile(std::uint32_t tile, std::vector<PreparedBlock>& blocks) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      units_[i] = {};
      units_[i].next = i + 1 < units_.size() ? &units_[i + 1] : nullptr;
      if (i == size_.correction_at) units_[i].correction.bytes = tensor_.data();
    }
    Unit* const end = write_walk(site_, job_, operands_ ? &*operands_ : nullptr, tile, options_, uses_, units_.data());
    if (end != nullptr) refuse("the memory of a transfer changed meanwhile", "prepare it again");
    std::span<const std::byte> tensor;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const Unit& unit = units_[i];
      if (unit.kind != Unit::Kind::Block) {
        refuse("the host memory of a transfer is not pinned", "allocate it from host_memory(), or register it");
      }
      if (i == size_.correction_at) {
        tensor = std::span(tensor_).first(unit.block.payload.dma.bytes);
        continue;
      }
      blocks.push_back(in_buffer(unit, tensor));
      if (unit.block.header.opcode == wire::Opcode::Compute) tensor = {};
    }
  }

  const LaunchSite& site_;
  const Job& job_;
  const LaunchOptions& options_;
  AllocationUses& uses_;
  const WalkSize size_;
  std::vector<std::byte> tensor_;
  std::vector<Unit> units_;
  std::optional<BoundOperands> operands_;
};

// Gives each block its place: as many in a buffer as one takes.
std::vector<std::vector<PreparedBlock*>> place(std::vector<PreparedBlock>& blocks) {
  std::vector<std::vector<PreparedBlock*>> buffers;
  std::uint64_t data_bytes = 0;
  for (PreparedBlock& block : blocks) {
    const bool full = !buffers.empty() && (buffers.back().size() == wire::kMaxBufferBlocks ||
                                           data_bytes + block.tensor.size() > wire::kMaxBufferDataBytes);
    if (buffers.empty() || full) {
      buffers.emplace_back();
      data_bytes = 0;
    }
    block.buffer = static_cast<std::uint32_t>(buffers.size() - 1);
    block.index = static_cast<std::uint32_t>(buffers.back().size());
    block.data_offset = data_bytes;
    if (!block.tensor.empty()) block.block.payload.compute.correction.offset = data_bytes;
    data_bytes += block.tensor.size();
    buffers.back().push_back(&block);
  }
  return buffers;
}

}  // namespace

std::shared_ptr<PreparedLaunches> FlexStream::Prepare(std::span<const LaunchRequest> requests) {
  function_.require_own_process();
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  // While it lasts no recovery begins: what is looked up stays so.
  StreamChannel::Reservation reservation(channel_);
  channel_.reserve(reservation, {}, 0, recoveries);
  const LaunchSite site = function_.launch_site(channel_.stream());
  auto state = std::make_shared<PreparedLaunches::State>();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const LaunchRequest& request = requests[i];
    auto held = std::make_shared<PreparedLaunches::Held>(
        PreparedLaunches::Held{.job = *request.job,
                               .uses = {},
                               .keep_alive = request.options.keep_alive,
                               .allow_tiled_launch = request.options.allow_tiled_launch,
                               .core_mask = request.options.core_mask,
                               .budget_slices = request.options.budget_slices});
    const std::size_t first = state->blocks.size();
    LaunchWriter(site, *request.job, request.arguments, request.options, held->uses).write(state->blocks);
    for (std::size_t b = first; b < state->blocks.size(); ++b) state->blocks[b].request = i;
    state->held.push_back(std::move(held));
  }
  if (state->blocks.empty()) refuse("there is nothing to launch", "give at least one launch");
  const auto device = function_.device();
  auto buffers = std::make_shared<std::vector<std::unique_ptr<CardBuffer>>>();
  for (const auto& blocks : place(state->blocks)) {
    buffers->push_back(std::make_unique<CardBuffer>(device, function_.host_memory(), blocks));
  }
  state->buffers = std::move(buffers);
  return std::shared_ptr<PreparedLaunches>(new PreparedLaunches(requests.size(), device, function_, std::move(state)));
}

std::uint64_t FlexStream::Launch(const PreparedLaunches& prepared) {
  function_.require_own_process();
  trace::Span traced(trace::Kind::Launch);
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  const std::uint64_t number = channel_.launch_prepared(prepared.current(function_), recoveries);
  if (auto* const fields = traced.fields()) {
    *fields = {.kind = trace::Kind::Launch,
               .card = channel_.trace_card(),
               .stream = channel_.stream(),
               .launch = number,
               .tile = static_cast<std::uint32_t>(prepared.size()),
               .text = "prepared"};
  }
  return number;
}

std::uint64_t FlexStream::Patch(PreparedLaunches& prepared, std::size_t launch, std::span<const Argument> arguments,
                                std::shared_ptr<const void> keep_alive) {
  function_.require_own_process();
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
                                                                      .keep_alive = std::move(keep_alive),
                                                                      .allow_tiled_launch = old.allow_tiled_launch,
                                                                      .core_mask = old.core_mask,
                                                                      .budget_slices = old.budget_slices});
  std::vector<PreparedBlock> blocks;
  StreamChannel::Reservation reservation(channel_);
  channel_.reserve(reservation, {}, 0, recoveries);
  LaunchWriter(function_.launch_site(channel_.stream()), held->job, arguments, options, held->uses).write(blocks);
  auto state = std::make_shared<PreparedLaunches::State>();
  state->held = before->held;
  state->held[launch] = std::move(held);
  state->blocks = before->blocks;
  state->buffers = before->buffers;
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

std::uint64_t StreamChannel::launch_prepared(std::shared_ptr<PreparedLaunches::State> state, std::uint64_t recoveries) {
  Reservation reservation(*this);  // ends without the lock
  const Locked lock(*this);
  begin_reservation(reservation, recoveries);
  LaunchState& launch = *reservation.launch;
  launch.observer = nullptr;
  launch.kernel = nullptr;
  reservation.count = state->buffers->size();
  for (std::size_t i = 0; i < state->buffers->size(); ++i) {
    const CardBuffer& buffer = *(*state->buffers)[i];
    Unit* const unit = take_unit();
    reservation.units.push(unit);
    unit->kind = Unit::Kind::Block;
    unit->tile = 0;
    unit->step = static_cast<std::uint32_t>(i);
    unit->prepared = state.get();
    unit->block.header = {};
    unit->block.header.opcode = buffer.is_one_compute() ? wire::Opcode::Prepared : wire::Opcode::Call;
    unit->block.payload.call = {
        .buffer = buffer.id(), .reserved0 = 0, .epoch = buffer.epoch(), .signal_base = 0, .reserved = {}};
  }
  launch.keep_alive = std::move(state);
  enqueue(reservation);
  pump();
  return launched_;
}

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
  StreamFailure failure = block == nullptr ? describe_failure(unit.block, unit.windows, completion, unit.launch->kernel)
                                           : describe_failure(block->block, block->windows, completion,
                                                              unit.prepared->held[block->request]->job.binary().get());
  failure.tile = block != nullptr ? block->tile : unit.tile;
  failure.step = block != nullptr ? block->step : unit.step;
  return failure;
}

}  // namespace svp
