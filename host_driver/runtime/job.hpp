// SPDX-License-Identifier: Apache-2.0
// Job and JobPlan (RFC "Program Execution Pipeline"): what FlexStream::Launch walks. Passive and copyable; copies share
// the loaded binary. Making one checks it, so that a launch does not have to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/runtime/correction.hpp"
#include "host_driver/runtime/kernel.hpp"
#include "host_driver/runtime/staged_converter.hpp"
#include "host_driver/runtime/strided_transfer.hpp"

namespace svp {

class DeviceProgram;
struct LaunchForm;

enum class Direction : std::uint8_t { ToDevice, FromDevice, DeviceToDevice };

// When a HostOperation runs.
//   AtLaunch   on the thread that calls Launch(), before it returns; what it throws reaches that caller, and nothing
//              was enqueued. The driver's own function runs so for the first tile, and for the others when the stream
//              comes to them
//   InStream   on a thread of the runtime's pool, when everything launched before has been sent to the card (behind a
//              pipeline barrier: when it has ended), tile by tile, a few ahead of the card. The functions of a stream
//              run one at a time and in order. What one throws is the stream's error: what stands before it has run,
//              what stands behind it ends ABORTED. It may launch, and may not wait for a stream
enum class HostTime : std::uint8_t { AtLaunch, InStream };

// Host computation of a walk; its result is what the correction DMA behind it carries.
struct HostOperation {
  HostFunction function = build_correction;
  HostTime time = HostTime::AtLaunch;
};

// Moves `size` bytes (1 and up) between host memory of any kind and an allocation, or inside the card. Offsets are
// multiples of 128. Host memory belongs to the launch until the stream is synchronised. Pinned memory (allocated or
// registered, HostMemory) is reached by the card itself; other memory is staged in chunks, whatever the size is.
struct DMA {
  void* host_address = nullptr;  // DeviceToDevice: unused
  AllocationIndex allocation_index = AllocationIndex::Null;
  std::uint64_t size = 0;
  Direction direction = Direction::ToDevice;
  std::uint64_t offset = 0;
  // DeviceToDevice only.
  AllocationIndex source_allocation_index = AllocationIndex::Null;
  std::uint64_t source_offset = 0;
  // Instead of host_address: staged by it. Kept alive by the launch's keep_alive.
  StagedConverter* converter = nullptr;
};

// The DMA of the correction tensor to the stream's slot behind "segment 7, address 0". Its size is what the
// HostOperation before it produced (RFC open question 10: derived at run time, bounded by the metadata).
struct CorrectionDMA {};

// Writes a 64-bit pattern over `size` bytes.
struct Fill {
  AllocationIndex allocation_index = AllocationIndex::Null;
  std::uint64_t size = 0;
  std::uint64_t pattern = 0;
  std::uint64_t offset = 0;
};

// Runs the job's binary. `expected_input_shapes`: the compiled shape of every operand, inputs and outputs, in order.
struct DeviceCompute {
  std::vector<Shape> expected_input_shapes;
  std::uint64_t core_mask = 0;      // 0: chosen by the amount of work, see kPointsWorthAllCores
  std::uint64_t budget_slices = 0;  // watchdog slices of 1 ms; 0: the card's default
};

using Step = std::variant<HostOperation, DMA, CorrectionDMA, Fill, DeviceCompute, StridedDMA>;

using spyre::InvalidPlan;

class JobPlan {
 public:
  JobPlan() = default;
  // Throws InvalidPlan naming the step: a plan is (DMA | StridedDMA | Fill)*, and around at most one DeviceCompute,
  // which may have HostOperation, CorrectionDMA directly in front of it. One with a HostOperation in the stream has no
  // other steps than these three.
  JobPlan(std::vector<Step> steps);  // NOLINT(google-explicit-constructor): a list of steps is a plan

  // HostOperation, CorrectionDMA, DeviceCompute; only the last for a kernel without symbols.
  static JobPlan standard(const CompiledKernel& kernel);

  std::span<const Step> steps() const { return steps_; }
  const DeviceCompute* compute() const;
  bool corrects() const { return corrects_; }
  bool runs_in_stream() const { return in_stream_; }  // it has a HostOperation of HostTime::InStream
  // Control blocks; a staged transfer counts as one, and memory as one chunk (size_of_walk()).
  std::size_t blocks_per_walk() const { return blocks_; }
  std::size_t correction_at() const { return correction_at_; }  // index of the correction DMA among them; ~0: none

 private:
  std::vector<Step> steps_;
  std::size_t compute_ = ~std::size_t{0};
  std::size_t blocks_ = 0;
  std::size_t correction_at_ = ~std::size_t{0};
  bool corrects_ = false;
  bool in_stream_ = false;
};

// The place of program::stored_tables() in Tensor memory.
class PlacedTables {
 public:
  // Throws OutOfMemory.
  explicit PlacedTables(std::shared_ptr<FlexAllocator> allocator);
  ~PlacedTables();
  PlacedTables(const PlacedTables&) = delete;
  PlacedTables& operator=(const PlacedTables&) = delete;

  AllocationIndex allocation_index() const { return index_; }
  // False: a reset of the function took the place away.
  bool on_card() const { return allocator_->try_resolve(index_).has_value(); }

 private:
  std::shared_ptr<FlexAllocator> allocator_;
  AllocationIndex index_;
};

// A kernel's place in Program memory; given back when the last job, copy or running launch that uses it is gone. Of a
// device program: a part in the place of the engine, and the program's own place in Tensor memory.
class LoadedProgram {
 public:
  // Throws OutOfMemory.
  LoadedProgram(std::shared_ptr<FlexAllocator> allocator, std::shared_ptr<const Kernel> kernel);
  // In memory of somebody else, who has sent the image to byte `offset` of it (a multiple of 128): who releases it
  // meanwhile gives up the handle only. Throws InvalidAllocation; InvalidArgument ("offset") when the image does not
  // fit.
  LoadedProgram(std::shared_ptr<FlexAllocator> allocator, std::shared_ptr<const Kernel> kernel, AllocationIndex place,
                std::uint64_t offset);
  // `kernel` is of a device program; `engine` is the place of its image, `tables` that of the tables of functions: null
  // when the program does not use them. Throws OutOfMemory.
  LoadedProgram(std::shared_ptr<FlexAllocator> allocator, std::shared_ptr<const Kernel> kernel,
                std::shared_ptr<const LoadedProgram> engine, std::shared_ptr<const PlacedTables> tables);
  ~LoadedProgram();
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  AllocationIndex allocation_index() const { return index_; }
  std::uint64_t offset() const { return offset_; }            // of the image, in the allocation
  AllocationIndex program_index() const { return program_; }  // of a device program's bytes, else Null
  // Of the tables that a device program uses, else Null.
  AllocationIndex tables_index() const {
    return tables_ == nullptr ? AllocationIndex::Null : tables_->allocation_index();
  }
  const Kernel& kernel() const { return *kernel_; }
  const std::shared_ptr<FlexAllocator>& allocator() const { return allocator_; }
  // False: a reset of the function took the place away.
  bool on_card() const {
    return allocator_->try_resolve(index_).has_value() &&
           (program_ == AllocationIndex::Null || allocator_->try_resolve(program_).has_value()) &&
           (tables_ == nullptr || tables_->on_card());
  }

 private:
  std::shared_ptr<FlexAllocator> allocator_;
  std::shared_ptr<const Kernel> kernel_;
  AllocationIndex index_;
  std::uint64_t offset_ = 0;
  AllocationUses borrowed_;  // of memory of somebody else
  std::shared_ptr<const LoadedProgram> engine_;
  std::shared_ptr<const PlacedTables> tables_;
  AllocationIndex program_ = AllocationIndex::Null;
};

// How a device program is launched.
struct ProgramOptions {
  std::uint64_t core_mask = 0;      // 0: chosen by the amount of work, see kPointsWorthAllCores
  std::uint64_t budget_slices = 0;  // watchdog slices of 1 ms; 0: the card's default
};

class Job {
 public:
  // Throw InvalidPlan: a compute without binary or with shapes that are not the binary's; a binary that has symbols
  // without HostOperation; a correction without binary.
  Job(std::shared_ptr<const Kernel> binary, ProgramCorrectionMetadata program_correction_metadata, JobPlan job_plan);
  explicit Job(JobPlan job_plan);
  // The standard job of a compiled kernel.
  explicit Job(const CompiledKernel& kernel);
  // A binary of a SpyreCode directory, or a kernel image with its metadata beside it. Throw InvalidPlan, also for a
  // file that is none. (docs/spyrecode.md)
  Job(const std::filesystem::path& binary_path, ProgramCorrectionMetadata program_correction_metadata,
      JobPlan job_plan);
  // The standard job of a binary, with the extents of its command list.
  explicit Job(const std::filesystem::path& binary_path);

  // A device program, executed by `engine` (Context::engine()). A launch takes one argument for each of the program's;
  // the driver adds the program itself and memory for its workspace, which only that launch has. Null: the job gets an
  // engine when it is loaded (Context::load()). Throws InvalidArgument ("engine", "program").
  explicit Job(std::shared_ptr<const DeviceProgram> program, std::shared_ptr<const Kernel> engine = nullptr,
               ProgramOptions options = {});

  static Job to_device(const void* host, AllocationIndex destination, std::uint64_t size, std::uint64_t offset = 0);
  static Job from_device(void* host, AllocationIndex source, std::uint64_t size, std::uint64_t offset = 0);
  // One block per transfer, in order; those that move nothing are left out. Throws InvalidArgument as StridedDMA.
  static Job strided(std::span<const StridedTransfer> transfers);
  static Job fill(AllocationIndex destination, std::uint64_t size, std::uint64_t pattern, std::uint64_t offset = 0);

  const std::shared_ptr<const Kernel>& binary() const { return binary_; }
  // Null: the job is a kernel or transfers.
  const std::shared_ptr<const DeviceProgram>& device_program() const { return device_program_; }
  // Operands, byte steps and the one tile of a launch of the device program.
  const std::shared_ptr<const LaunchForm>& program_form() const { return program_form_; }
  // A device program without an engine. set_engine() throws as the constructor.
  bool needs_engine() const { return device_program_ != nullptr && binary_->engine() == nullptr; }
  void set_engine(std::shared_ptr<const Kernel> engine);
  const ProgramCorrectionMetadata& program_correction_metadata() const { return correction_; }
  const JobPlan& job_plan() const { return plan_; }
  std::span<const std::int64_t> compiled_extents() const { return extents_; }  // per dimension of the kernel

  // Null until loaded.
  AllocationIndex allocation_index() const { return program_ ? program_->allocation_index() : AllocationIndex::Null; }
  const std::shared_ptr<const LoadedProgram>& program() const { return program_; }
  void set_program(std::shared_ptr<const LoadedProgram> program) { program_ = std::move(program); }
  // It can be launched: its binary is on the card, or it has none.
  bool loaded() const { return binary_ == nullptr || (program_ != nullptr && program_->on_card()); }

  // All cores when the work is worth a hand-over, core 0 otherwise.
  bool worth_all_cores() const { return worth_all_cores_; }

 private:
  void check_shapes();
  void make_program_plan(const ProgramOptions& options);

  std::shared_ptr<const Kernel> binary_;
  ProgramCorrectionMetadata correction_;
  JobPlan plan_;
  std::vector<std::int64_t> extents_;
  std::shared_ptr<const LoadedProgram> program_;
  std::shared_ptr<const DeviceProgram> device_program_;
  std::shared_ptr<const LaunchForm> program_form_;
  bool worth_all_cores_ = false;
};

// Handing work to a sleeping core costs 13–26 µs under the emulator, and the fastest kernel does 2.4 points of its
// iteration space (product of all dimensions) per nanosecond: below this many points, 55 µs of one core, waking others
// costs more than it saves.
inline constexpr std::int64_t kPointsWorthAllCores = std::int64_t{1} << 17;

}  // namespace svp
