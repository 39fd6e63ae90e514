// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/job.hpp"

#include <algorithm>
#include <utility>

#include "host_driver/program/device_program.hpp"
#include "host_driver/spyrecode/hcm.hpp"

namespace svp {
namespace {

std::string step_name(std::size_t index) { return "job_plan.step[" + std::to_string(index) + "]"; }

[[noreturn]] void refuse(std::size_t index, const std::string& what, const char* next) {
  throw InvalidPlan(step_name(index), step_name(index) + " " + what, next);
}

void check_dma(std::size_t index, const DMA& dma) {
  const bool inside = dma.direction == Direction::DeviceToDevice;
  if (dma.direction > Direction::DeviceToDevice) refuse(index, "DMA has an unknown direction", "use one of Direction");
  if (dma.size == 0) refuse(index, "DMA has size 0", "leave it out");
  if (!inside && dma.host_address == nullptr && dma.converter == nullptr)
    refuse(index, "DMA has no host address", "give the host memory");
  if (dma.allocation_index == AllocationIndex::Null) refuse(index, "DMA names no allocation", "allocate it first");
  if (inside && dma.source_allocation_index == AllocationIndex::Null) {
    refuse(index, "DMA inside the card names no source", "give source_allocation_index");
  }
  if (!wire::is_aligned(dma.offset | dma.source_offset, wire::kStickBytes)) {
    refuse(index, "DMA offset is not a multiple of 128", "move whole sticks, or start at a stick");
  }
}

void check_fill(std::size_t index, const Fill& fill) {
  if (fill.size == 0) refuse(index, "Fill has size 0", "leave it out");
  if (fill.allocation_index == AllocationIndex::Null) refuse(index, "Fill names no allocation", "allocate it first");
  if (!wire::is_aligned(fill.offset, wire::kStickBytes))
    refuse(index, "Fill offset is not a multiple of 128", "start at a stick");
}

// The address of a scalar has no axis.
bool is_of(const KernelSymbol& symbol, const KernelMetadata& kernel) {
  if (symbol.operand >= kernel.operands.size()) return false;
  if (!spyrecode::has_axis(symbol.kind)) return true;
  return symbol.axis < kernel.operands[symbol.operand].shape.size() && symbol.dimension < kernel.dimensions.size();
}

constexpr std::size_t kNone = ~std::size_t{0};

}  // namespace

JobPlan::JobPlan(std::vector<Step> steps) : steps_(std::move(steps)) {
  const auto follows = [&]<typename T>(std::size_t i, T*) {
    return i + 1 < steps_.size() && std::holds_alternative<T>(steps_[i + 1]);
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const bool after_host = i != 0 && std::holds_alternative<HostOperation>(steps_[i - 1]);
    if (const auto* host = std::get_if<HostOperation>(&steps_[i])) {
      if (!host->function) refuse(i, "HostOperation has no function", "give one, or build_correction");
      if (!follows(i, static_cast<CorrectionDMA*>(nullptr))) {
        refuse(i, "HostOperation is not followed by CorrectionDMA",
               "order HostOperation, CorrectionDMA, DeviceCompute");
      }
      corrects_ = true;
      in_stream_ = host->time == HostTime::InStream;
      correction_at_ = blocks_;
      continue;
    }
    ++blocks_;
    if (std::holds_alternative<CorrectionDMA>(steps_[i])) {
      if (!after_host || !follows(i, static_cast<DeviceCompute*>(nullptr))) {
        refuse(i, "CorrectionDMA does not stand between HostOperation and DeviceCompute",
               "order HostOperation, CorrectionDMA, DeviceCompute");
      }
    } else if (std::holds_alternative<DeviceCompute>(steps_[i])) {
      if (compute_ != kNone) refuse(i, "is a second DeviceCompute", "put each kernel in a job of its own");
      compute_ = i;
    } else if (const auto* dma = std::get_if<DMA>(&steps_[i])) {
      check_dma(i, *dma);
    } else if (const auto* fill = std::get_if<Fill>(&steps_[i])) {
      check_fill(i, *fill);
    }
  }
  if (in_stream_ && steps_.size() != 3) {
    throw InvalidPlan("job_plan", "a plan with a HostOperation in the stream has other steps than its own three",
                      "put transfers into jobs of their own, or let the operation run at the launch");
  }
}

JobPlan JobPlan::standard(const CompiledKernel& kernel) {
  std::vector<Step> steps;
  if (!kernel.kernel()->metadata().symbols.empty()) {
    steps.emplace_back(HostOperation{});
    steps.emplace_back(CorrectionDMA{});
  }
  steps.emplace_back(DeviceCompute{{kernel.operand_shapes().begin(), kernel.operand_shapes().end()}});
  return {std::move(steps)};
}

const DeviceCompute* JobPlan::compute() const {
  return compute_ == kNone ? nullptr : &std::get<DeviceCompute>(steps_[compute_]);
}

PlacedTables::PlacedTables(std::shared_ptr<FlexAllocator> allocator)
    : allocator_(std::move(allocator)), index_(allocator_->allocate(wire::program::kAllTablesBytes)) {}

PlacedTables::~PlacedTables() { (void)allocator_->try_deallocate(index_); }

LoadedProgram::LoadedProgram(std::shared_ptr<FlexAllocator> allocator, std::shared_ptr<const Kernel> kernel)
    : allocator_(std::move(allocator)),
      kernel_(std::move(kernel)),
      index_(allocator_->allocate(kernel_->image().size(), {.type = RegionType::Program})) {}

LoadedProgram::LoadedProgram(std::shared_ptr<FlexAllocator> allocator, std::shared_ptr<const Kernel> kernel,
                             AllocationIndex place, std::uint64_t offset)
    : allocator_(std::move(allocator)), kernel_(std::move(kernel)), index_(place), offset_(offset) {
  const auto memory = allocator_->try_use(place, borrowed_);
  if (!memory) (void)allocator_->resolve(place);  // throws why
  const bool fits = wire::is_aligned(offset, wire::kStickBytes) &&
                    wire::range_inside(offset, kernel_->image().size(), memory->block_bytes);
  if (fits) return;
  throw InvalidArgument("offset",
                        "the image of kernel " + kernel_->name() + " does not lie at byte " + std::to_string(offset) +
                            " of an allocation of " + std::to_string(memory->block_bytes) + " bytes",
                        "send it to a multiple of 128, inside of the allocation");
}

LoadedProgram::LoadedProgram(std::shared_ptr<FlexAllocator> allocator, std::shared_ptr<const Kernel> kernel,
                             std::shared_ptr<const LoadedProgram> engine, std::shared_ptr<const PlacedTables> tables)
    : allocator_(std::move(allocator)),
      kernel_(std::move(kernel)),
      index_(engine->allocation_index()),
      offset_(engine->offset()),
      engine_(std::move(engine)),
      tables_(std::move(tables)),
      program_(allocator_->allocate(kernel_->program()->bytes().size())) {}

LoadedProgram::~LoadedProgram() {
  (void)allocator_->try_deallocate(program_);
  if (borrowed_.empty() && engine_ == nullptr) (void)allocator_->try_deallocate(index_);
}

Job::Job(std::shared_ptr<const Kernel> binary, ProgramCorrectionMetadata program_correction_metadata, JobPlan job_plan)
    : binary_(std::move(binary)), correction_(std::move(program_correction_metadata)), plan_(std::move(job_plan)) {
  if (binary_ == nullptr) throw InvalidPlan("binary", "the job has no binary", "use Job(JobPlan) for transfers");
  if (plan_.compute() == nullptr) {
    throw InvalidPlan("job_plan", "a job with a binary has no DeviceCompute", "add the step or leave the binary out");
  }
  if (!binary_->metadata().symbols.empty() && !plan_.corrects()) {
    throw InvalidPlan("job_plan", "kernel " + binary_->name() + " has symbols, the plan does not correct them",
                      "put HostOperation and CorrectionDMA before DeviceCompute");
  }
  if (correction_.max_bytes > wire::kMaxCorrectionBytes) {
    throw InvalidPlan("program_correction_metadata.max_bytes",
                      "a correction tensor of " + std::to_string(correction_.max_bytes) +
                          " bytes is larger than a kernel can be given",
                      "keep it within " + std::to_string(wire::kMaxCorrectionBytes) + " bytes");
  }
  for (const KernelSymbol& symbol : correction_.symbols) {
    const KernelMetadata& metadata = binary_->metadata();
    if (!is_of(symbol, metadata)) {
      throw InvalidPlan("program_correction_metadata.symbols", "a symbol names no operand or dimension of the kernel",
                        "take the metadata of the same kernel build");
    }
  }
  check_shapes();
}

Job::Job(JobPlan job_plan) : plan_(std::move(job_plan)) {
  if (plan_.compute() != nullptr) {
    throw InvalidPlan("binary", "a plan with DeviceCompute needs a binary", "use Job(binary, metadata, plan)");
  }
}

Job::Job(const CompiledKernel& kernel)
    : Job(kernel.kernel(), ProgramCorrectionMetadata::of(*kernel.kernel()), JobPlan::standard(kernel)) {}

Job Job::to_device(const void* host, AllocationIndex destination, std::uint64_t size, std::uint64_t offset) {
  return Job(JobPlan({DMA{.host_address = const_cast<void*>(host),  // only read
                          .allocation_index = destination,
                          .size = size,
                          .direction = Direction::ToDevice,
                          .offset = offset}}));
}
Job Job::from_device(void* host, AllocationIndex source, std::uint64_t size, std::uint64_t offset) {
  return Job(JobPlan({DMA{.host_address = host,
                          .allocation_index = source,
                          .size = size,
                          .direction = Direction::FromDevice,
                          .offset = offset}}));
}
Job Job::strided(std::span<const StridedTransfer> transfers) {
  std::vector<Step> steps;
  for (const StridedTransfer& transfer : transfers) {
    const bool nothing = std::ranges::find(transfer.loops.size, 0) != transfer.loops.size.end();
    if (!nothing) steps.emplace_back(StridedDMA(transfer));
  }
  return Job(JobPlan(std::move(steps)));
}

Job Job::fill(AllocationIndex destination, std::uint64_t size, std::uint64_t pattern, std::uint64_t offset) {
  return Job(JobPlan({Fill{.allocation_index = destination, .size = size, .pattern = pattern, .offset = offset}}));
}

// Takes the extent of every dimension from the shapes, and holds them against each other.
void Job::check_shapes() {
  const KernelMetadata& metadata = binary_->metadata();
  const auto& shapes = plan_.compute()->expected_input_shapes;
  if (shapes.size() != metadata.operands.size()) {
    throw InvalidPlan("expected_input_shapes",
                      "kernel " + binary_->name() + " has " + std::to_string(metadata.operands.size()) +
                          " operands, the plan has " + std::to_string(shapes.size()) + " shapes",
                      "give one shape per operand");
  }
  extents_.assign(metadata.dimensions.size(), 0);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const KernelOperand& operand = metadata.operands[i];
    const std::string field = "expected_input_shapes[" + std::to_string(i) + "]";
    bool fits = shapes[i].rank() == operand.shape.size();
    for (std::size_t axis = 0; fits && axis < shapes[i].rank(); ++axis) {
      std::int64_t& extent = extents_[operand.shape[axis]];
      if (extent == 0) extent = shapes[i][axis];
      fits = shapes[i][axis] > 0 && shapes[i][axis] == extent;
    }
    if (!fits) {
      throw InvalidPlan(field, field + " " + to_string(shapes[i]) + " is no shape of operand " + operand.name,
                        "specialise the kernel once and take its shapes");
    }
  }
  std::int64_t points = 1;
  for (const std::int64_t extent : extents_) {
    if (__builtin_mul_overflow(points, extent, &points)) points = kPointsWorthAllCores;
    if (points >= kPointsWorthAllCores) break;
  }
  worth_all_cores_ = points >= kPointsWorthAllCores;
}

}  // namespace svp
