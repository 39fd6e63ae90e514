// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/bound_operands.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "host_driver/program/device_program.hpp"

namespace svp {
namespace {

template <typename Refusal = InvalidArgument>
[[noreturn]] void refuse_operand(const Kernel& kernel, std::size_t index, const std::string& what,
                                 std::string next_step) {
  const std::string operand = "operand " + kernel.metadata().operands[index].name;
  throw Refusal(operand, operand + " of kernel " + kernel.name() + " " + what, std::move(next_step));
}

void check_form(const Kernel& kernel, std::size_t index, const Argument& argument) {
  const KernelOperand& operand = kernel.metadata().operands[index];
  if (argument.dtype != operand.dtype) {
    refuse_operand(kernel, index,
                   "is " + std::string(name(argument.dtype)) + ", compiled for " + std::string(name(operand.dtype)),
                   "convert the tensor");
  }
  for (std::size_t axis = 0; axis < argument.shape.rank(); ++axis) {
    if (argument.shape[axis] < 1) {
      refuse_operand(kernel, index,
                     "has extent " + std::to_string(argument.shape[axis]) + " in dimension " + std::to_string(axis),
                     "give positive extents");
    }
  }
  for (std::size_t axis = 0; argument.stride && axis < argument.shape.rank(); ++axis) {
    const std::uint64_t stride = (*argument.stride)[axis];
    if (!wire::is_aligned(stride, wire::kStickBytes)) {
      refuse_operand(kernel, index,
                     "has a stride of " + std::to_string(stride) + " bytes in dimension " + std::to_string(axis),
                     "give multiples of 128");
    }
    if (operand.writes() && stride == 0 && argument.shape[axis] > 1) {
      refuse_operand(kernel, index, "is written and repeats one element in dimension " + std::to_string(axis),
                     "give an output with memory for each element");
    }
  }
}

// Not of a form: the same shapes come with other offsets.
void check_offset(const Kernel& kernel, std::size_t index, const Argument& argument) {
  if (wire::is_aligned(argument.offset, wire::kStickBytes)) return;
  refuse_operand(kernel, index, "starts at byte " + std::to_string(argument.offset) + " of its allocation",
                 "start at a multiple of 128");
}

// A kernel sees an operand through one window, that of its region.
void require_one_chunk(const Kernel& kernel, std::size_t index, const FlexAllocator& allocator,
                       AllocationIndex allocation) {
  const auto memory = allocator.try_resolve_chunks(allocation);
  if (!memory || memory->count == 1) return;
  refuse_operand<spyre::CopyNeeded>(
      kernel, index,
      "(number " + std::to_string(index) + ") lies in " + std::to_string(memory->count) +
          " chunks, and a kernel takes operands of one",
      "launch with a copy of it (Context::contiguous()), or allocate it without interleaving");
}

StickGeometry geometry_of(const Argument& argument) {
  const std::int64_t per_stick = elements_per_stick(argument.dtype);
  return argument.stride ? StickGeometry::strided(argument.shape, *argument.stride, per_stick)
                         : StickGeometry::of(argument.shape, per_stick);
}

void repeat_broadcast(LaunchForm& form, std::size_t operands) {
  for (std::size_t i = 0; i < operands; ++i) {
    for (std::size_t axis = 0; axis < form.shape[i].rank(); ++axis) {
      if ((form.tiling.broadcast[i] >> axis & 1U) != 0) form.geometry[i].stride[axis] = 0;
    }
  }
}

}  // namespace

BoundOperands::BoundOperands(FlexAllocator& allocator, Scratchpads& scratchpads, const Job& job,
                             std::span<const Argument> arguments, bool allow_tiled_launch, AllocationUses& uses)
    : kernel_(job.binary().get()) {
  const auto image = allocator.try_resolve(job.allocation_index());
  if (!image) {
    throw InvalidArgument("job", "kernel " + kernel_->name() + " is not on the card any more: " + image.error().message,
                          "load the plan again");
  }
  image_ = {advanced(image->address, job.program()->offset()), image->region_generation};
  count_ = kernel_->metadata().operands.size();
  if (job.device_program() != nullptr) {
    bind_program(allocator, scratchpads, job, arguments, uses);
  } else {
    bind_kernel(allocator, job, arguments, allow_tiled_launch, uses);
  }
  check_overlap();
  find_partials(allocator, uses);
}

void BoundOperands::bind_kernel(FlexAllocator& allocator, const Job& job, std::span<const Argument> arguments,
                                bool allow_tiled_launch, AllocationUses& uses) {
  const KernelMetadata& kernel = kernel_->metadata();
  if (arguments.size() != count_) {
    throw InvalidArgument("arguments",
                          "kernel " + kernel.name + " takes " + std::to_string(count_) + " operands, " +
                              std::to_string(arguments.size()) + " were given",
                          "give one tensor per operand, inputs and outputs");
  }
  form_ = remembered_form(job, arguments, allow_tiled_launch);
  if (form_ != nullptr) {
    for (std::size_t i = 0; i < count_; ++i) resolve(allocator, arguments[i], form_->geometry[i], i, uses);
  } else {
    const auto form = std::make_shared<LaunchForm>();
    for (std::size_t i = 0; i < count_; ++i) {
      check_form(*kernel_, i, arguments[i]);
      form->shape.push_back(arguments[i].shape);
      form->geometry.push_back(geometry_of(arguments[i]));
      resolve(allocator, arguments[i], form->geometry[i], i, uses);
    }
    form->tiling = plan_tiling(kernel, job.job_plan().compute()->expected_input_shapes, arguments, form->geometry,
                               allow_tiled_launch);
    repeat_broadcast(*form, count_);
    form_ = remember_form(form, job, arguments, allow_tiled_launch);
  }
}

namespace {

// What the caller gives for an argument of a device program.
void check_raw(const Kernel& kernel, std::size_t index, const Argument& given, std::uint64_t needed) {
  if (given.raw_bytes == 0 || given.raw_bytes >= needed) return;
  refuse_operand(kernel, index,
                 "needs " + std::to_string(needed) + " bytes, " + std::to_string(given.raw_bytes) + " were given",
                 "give the tensor that the program was made for");
}

}  // namespace

// The program, what the caller gives for its arguments, the tables, a workspace, and the function's scratchpads.
void BoundOperands::bind_program(FlexAllocator& allocator, Scratchpads& scratchpads, const Job& job,
                                 std::span<const Argument> arguments, AllocationUses& uses) {
  const DeviceProgram& program = *job.device_program();
  if (arguments.size() != program.arguments().size()) {
    throw InvalidArgument("arguments",
                          "device program " + program.name() + " takes " + std::to_string(program.arguments().size()) +
                              " arguments, " + std::to_string(arguments.size()) + " were given",
                          "give one tensor per argument, in order; the driver adds the program and the workspace");
  }
  form_ = job.program_form();
  resolve(allocator, Argument::raw(job.program()->program_index()), form_->geometry[0], 0, uses);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    check_raw(*kernel_, i + 1, arguments[i], program.arguments()[i].bytes);
    resolve(allocator, arguments[i], form_->geometry[i + 1], i + 1, uses);
  }
  if (program.uses_tables()) {
    const std::size_t i = place_.size();
    resolve(allocator, Argument::raw(job.program()->tables_index()), form_->geometry[i], i, uses);
  }
  if (program.workspace_bytes() != 0) bind_workspace(allocator, uses);
  if (program.scratchpads_bytes() != 0) add_own(scratchpads.use(allocator, uses));
}

void BoundOperands::add_own(const ResolvedAllocation& memory) {
  place_.push_back(memory);
  regions_.region_id[memory.region_ordinal] = memory.address.region_id;
}

// Memory that only this launch has. Released at once: the launch uses it until it ends, and then it can be had again.
void BoundOperands::bind_workspace(FlexAllocator& allocator, AllocationUses& uses) {
  const AllocationIndex memory = allocator.allocate(form_->geometry[place_.size()].bytes, AllocationPolicy{}, uses);
  const auto resolved = allocator.try_use(memory, uses);
  allocator.deallocate(memory);
  if (!resolved) throw Error(resolved.error());
  add_own(*resolved);
}

void BoundOperands::resolve(FlexAllocator& allocator, const Argument& argument, const StickGeometry& geometry,
                            std::size_t index, AllocationUses& uses) {
  const Kernel& kernel = *kernel_;
  check_offset(kernel, index, argument);
  const auto resolved = allocator.try_use(argument.allocation, uses);
  if (!resolved) {
    require_one_chunk(kernel, index, allocator, argument.allocation);
    const std::string operand = "operand " + kernel.metadata().operands[index].name;
    allocator.refuse(argument.allocation, operand, " of kernel " + kernel.name() + " has no memory: ");
  }
  if (resolved->type != RegionType::Tensor)
    refuse_operand(kernel, index, "lies in program memory", "allocate it as a tensor");
  if (!wire::range_inside(argument.offset, geometry.bytes, resolved->block_bytes)) {
    const std::string shape = kernel.program() != nullptr ? "" : " for shape " + to_string(argument.shape);
    refuse_operand(kernel, index,
                   "needs " + std::to_string(geometry.bytes) + " bytes" + shape + " from byte " +
                       std::to_string(argument.offset) + ", its allocation has " +
                       std::to_string(resolved->block_bytes),
                   "allocate the tensor's size in device layout");
  }
  place_.push_back(*resolved).address.offset += argument.offset;
  regions_.region_id[resolved->region_ordinal] = resolved->address.region_id;
}

// Released at once: the launch uses it until it ends, and then it can be had again.
void BoundOperands::find_partials(FlexAllocator& allocator, AllocationUses& uses) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (form_->tiling.partial_bytes[i] == 0) continue;
    if (partials_.empty()) partials_.resize(count_);
    const AllocationIndex index = allocator.allocate(form_->tiling.partial_bytes[i], AllocationPolicy{}, uses);
    const auto resolved = allocator.try_use(index, uses);
    allocator.deallocate(index);
    if (!resolved) throw Error(resolved.error());
    partials_[i] = *resolved;
    regions_.region_id[resolved->region_ordinal] = resolved->address.region_id;
  }
}

// A device program works in place when the same bytes are given for two of its arguments: exactly the same ones, as it
// was made for, or of one storage, when it says that it was made for that (docs/program-launches.md). Its operations
// run one after the other.
bool BoundOperands::may_overlap(std::size_t i, std::size_t j) const {
  const DeviceProgram* program = kernel_->program().get();
  if (program == nullptr || place_[i].address.offset != place_[j].address.offset) return false;
  return (program->header().flags & wire::program::kOneStorage) != 0 ||
         form_->geometry[i].bytes == form_->geometry[j].bytes;
}

// A kernel may read an operand while it writes another: where they overlap the result would depend on the order.
void BoundOperands::check_overlap() const {
  const auto& operands = kernel_->metadata().operands;
  for (std::size_t i = 0; i < count_; ++i) {
    for (std::size_t j = 0; operands[i].writes() && j < count_; ++j) {
      const auto& a = place_[i];
      const auto& b = place_[j];
      if (i == j || a.region_ordinal != b.region_ordinal) continue;
      if (a.address.offset < b.address.offset + form_->geometry[j].bytes &&
          b.address.offset < a.address.offset + form_->geometry[i].bytes && !may_overlap(i, j)) {
        refuse_operand(*kernel_, i, "is written and overlaps operand " + operands[j].name,
                       kernel_->program() != nullptr ? "give the output memory of its own, or both from the same byte"
                                                     : "give the output memory of its own");
      }
    }
  }
}

PerOperand<ResolvedOperand> BoundOperands::of_tile(const Tile& tile) const {
  PerOperand<ResolvedOperand> operands;
  for (std::size_t i = 0; i < count_; ++i) {
    ResolvedOperand& operand = operands.push_back(
        {.address = advanced(place_[i].address, tile.offset[i]), .stride = form_->geometry[i].stride});
    if (!partials_.empty() && partials_[i].bytes != 0) operand.partials = partials_[i].address;
  }
  return operands;
}

// What the tile has of the operand; one that is reused or repeated may have less than the tile's extents.
Shape BoundOperands::shape_of_tile(const Tile& tile, std::size_t index) const {
  const auto& dimensions = kernel_->metadata().operands[index].shape;
  Shape shape = form_->shape[index];
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    shape[axis] = std::min(shape[axis], tile.extent[dimensions[axis]]);
  }
  return shape;
}

void BoundOperands::write_segments(const Tile& tile, wire::ComputePayload& compute, SegmentWindows& windows) const {
  const auto& operands = kernel_->metadata().operands;
  for (std::size_t i = 0; i < std::min<std::size_t>(count_, wire::kSegments); ++i) {
    wire::Segment& segment = compute.segments[i];
    segment.region_id = place_[i].address.region_id;
    segment.offset = place_[i].address.offset + tile.offset[i];
    segment.bytes = form_->geometry[i].span_of(shape_of_tile(tile, i), elements_per_stick(operands[i].dtype));
    segment.generation = place_[i].region_generation;
    segment.access = operands[i].access;
    windows[i] = static_cast<std::uint8_t>(place_[i].region_ordinal);
  }
  std::size_t row = count_;
  for (const ResolvedAllocation& partials : partials_) {
    if (row >= wire::kSegments) break;
    if (partials.bytes == 0) continue;
    compute.segments[row] = {.region_id = partials.address.region_id,
                             .offset = partials.address.offset,
                             .bytes = partials.bytes,
                             .generation = partials.region_generation,
                             .access = wire::kSegmentReadWrite,
                             .reserved = {}};
    windows[row++] = static_cast<std::uint8_t>(partials.region_ordinal);
  }
}

SharedOperandTable BoundOperands::table() const {
  if (count_ <= wire::kSegments) return nullptr;
  auto table = std::make_shared<OperandTable>();
  table->reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) {
    table->push_back({.segment = whole(i), .window = static_cast<std::uint8_t>(place_[i].region_ordinal)});
  }
  return table;
}

}  // namespace svp
