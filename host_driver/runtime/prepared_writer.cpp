// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/prepared_writer.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/shared_timelines.hpp"
#include "host_driver/runtime/unit.hpp"

namespace svp {
namespace {

[[noreturn]] void refuse_launch(std::string what, std::string next_step) {
  throw InvalidArgument("prepared", std::move(what), std::move(next_step));
}

void check_loaded_here(const Job& job, const FlexAllocator& allocator) {
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
    check_loaded_here(job, site.allocator);
    if (job.binary() != nullptr) {
      operands_.emplace(site.allocator, site.scratchpads, job, arguments, options.allow_tiled_launch, uses);
    } else if (!arguments.empty()) {
      throw InvalidArgument("arguments", "a job of transfers takes no operands", "prepare it without");
    }
  }

  void write(std::vector<PreparedBlock>& blocks) {
    const std::uint32_t tiles = operands_ ? operands_->tiling().tiles : 1;
    if (tiles > kMostTiles)
      refuse_launch(std::to_string(tiles) + " tiles are more than are prepared", "launch it as it is");
    for (std::uint32_t tile = 0; tile < tiles; ++tile) write_tile(tile, blocks);
  }

  SharedOperandTable table() const { return operands_ ? operands_->table() : nullptr; }

 private:
  static constexpr std::uint32_t kMostTiles = 1024;

  void write_tile(std::uint32_t tile, std::vector<PreparedBlock>& blocks) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      units_[i] = {};
      units_[i].next = i + 1 < units_.size() ? &units_[i + 1] : nullptr;
      if (i == size_.correction_at) units_[i].correction.bytes = tensor_.data();
    }
    Unit* const end = write_walk(site_, job_, operands_ ? &*operands_ : nullptr, tile, options_, uses_, units_.data());
    if (end != nullptr) refuse_launch("the memory of a transfer changed meanwhile", "prepare it again");
    std::span<const std::byte> tensor;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const Unit& unit = units_[i];
      if (unit.kind != Unit::Kind::Block) {
        refuse_launch("the host memory of a transfer is not pinned", "allocate it from host_memory(), or register it");
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

// Gives each block its place: as many in a buffer as one takes, and another buffer at each of `breaks` (indices of
// blocks, in order).
std::vector<std::vector<PreparedBlock*>> place(std::vector<PreparedBlock>& blocks,
                                               std::span<const std::size_t> breaks) {
  std::vector<std::vector<PreparedBlock*>> buffers;
  std::uint64_t data_bytes = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    PreparedBlock& block = blocks[i];
    const bool apart = !breaks.empty() && breaks.front() == i;
    if (apart) breaks = breaks.subspan(1);
    const bool full = !buffers.empty() && (buffers.back().size() == wire::kMaxBufferBlocks ||
                                           data_bytes + block.tensor.size() > wire::kMaxBufferDataBytes);
    if (buffers.empty() || full || apart) {
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

SharedOperandTable write_prepared(const LaunchSite& site, const Job& job, std::span<const Argument> arguments,
                                  const LaunchOptions& options, AllocationUses& uses,
                                  std::vector<PreparedBlock>& blocks) {
  LaunchWriter writer(site, job, arguments, options, uses);
  writer.write(blocks);
  return writer.table();
}

namespace {

void check_wait(const WaitStep& wait) {
  const auto* const event = std::get_if<std::shared_ptr<Event>>(&wait.awaited);
  if (event != nullptr && *event != nullptr) require_context_of(**event);
  if (const auto* const shared = std::get_if<spyre::SharedEvent>(&wait.awaited)) (void)place_from(*shared);
}

void check_function(const HostStep& host) {
  if (!*host.function) throw InvalidArgument("function", "an empty function was given", "give one that can be called");
}

}  // namespace

void PreparedWriter::add(const LaunchSite& site, std::span<const CapturedStep> steps) {
  const std::size_t launches = state_->held.size(), blocks = state_->blocks.size(), all = steps_.size();
  const ReplayStep last = steps_.empty() ? ReplayStep{} : steps_.back();  // it may grow
  try {
    for (const CapturedStep& step : steps) add_step(site, step);
  } catch (...) {
    state_->held.resize(launches);
    state_->blocks.resize(blocks);
    steps_.resize(all);
    if (all != 0) steps_.back() = last;
    throw;
  }
}

void PreparedWriter::add_step(const LaunchSite& site, const CapturedStep& step) {
  if (const auto* const request = std::get_if<LaunchRequest>(&step)) {
    add_launch(site, *request);
  } else if (const auto* const record = std::get_if<RecordStep>(&step)) {
    steps_.emplace_back(*record);
  } else if (const auto* const wait = std::get_if<WaitStep>(&step)) {
    check_wait(*wait);
    steps_.emplace_back(*wait);
  } else {
    check_function(std::get<HostStep>(step));
    steps_.emplace_back(std::get<HostStep>(step));
  }
}

void PreparedWriter::add_launch(const LaunchSite& site, const LaunchRequest& request) {
  auto held = std::make_shared<PreparedLaunches::Held>(
      PreparedLaunches::Held{.job = *request.job,
                             .uses = {},
                             .operands = {},
                             .keep_alive = request.options.keep_alive,
                             .allow_tiled_launch = request.options.allow_tiled_launch,
                             .core_mask = request.options.core_mask,
                             .budget_slices = request.options.budget_slices});
  std::vector<PreparedBlock> blocks;
  held->operands = write_prepared(site, *request.job, request.arguments, request.options, held->uses, blocks);
  const std::size_t first = state_->blocks.size();
  for (PreparedBlock& block : blocks) {
    block.request = state_->held.size();
    state_->blocks.push_back(std::move(block));
  }
  const std::vector<AwaitedUse>& awaited = held->uses.awaited();
  state_->awaited.insert(state_->awaited.end(), awaited.begin(), awaited.end());
  const DeviceProgram* const program = held->job.device_program().get();
  if (program != nullptr && program->scratchpads_bytes() != 0) {
    state_->slices = std::max(state_->slices, program->header().slices);
  }
  state_->held.push_back(std::move(held));
  add_to_calls({first, blocks.size(), request.options.pipeline_barrier});
}

void PreparedWriter::add_to_calls(const CallsStep& calls) {
  if (calls.count == 0) return;
  auto* const before = steps_.empty() ? nullptr : std::get_if<CallsStep>(&steps_.back());
  if (before != nullptr && !calls.barrier) {
    before->count += calls.count;
  } else {
    steps_.emplace_back(calls);
  }
}

void PreparedWriter::place_on_card(CurrentFunction& function) {
  std::vector<std::size_t> breaks;
  for (const ReplayStep& step : steps_) {
    if (const auto* const calls = std::get_if<CallsStep>(&step)) breaks.push_back(calls->first);
  }
  auto buffers = std::make_shared<std::vector<std::unique_ptr<CardBuffer>>>();
  const auto device = function.device();
  for (const auto& blocks : place(state_->blocks, breaks)) {
    buffers->push_back(std::make_unique<CardBuffer>(device, function.host_memory(), blocks));
  }
  for (ReplayStep& step : steps_) {
    auto* const calls = std::get_if<CallsStep>(&step);
    if (calls == nullptr) continue;
    const std::size_t first = state_->blocks[calls->first].buffer;
    const std::size_t last = state_->blocks[calls->first + calls->count - 1].buffer;
    *calls = {first, last - first + 1, calls->barrier};
  }
  state_->buffers = std::move(buffers);
  state_->steps = std::make_shared<const std::vector<ReplayStep>>(std::move(steps_));
}

std::shared_ptr<PreparedLaunches> PreparedWriter::finish(CurrentFunction& function) {
  if (steps_.empty()) refuse_launch("there is nothing to launch", "give at least one launch");
  place_on_card(function);
  return std::shared_ptr<PreparedLaunches>(new PreparedLaunches(function.device(), function, std::move(state_)));
}

}  // namespace svp
