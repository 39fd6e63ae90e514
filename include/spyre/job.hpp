// SPDX-License-Identifier: Apache-2.0
// Job and ExecutionPlan (RFC "Program Execution Pipeline"): what is launched. Passive; making one checks it, so that a
// launch does not have to. A job is a compiled kernel with the correction of its symbols, or one transfer of raw bytes.
#pragma once

#include <spyre/export.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <spyre/allocator.hpp>
#include <spyre/kernel.hpp>
#include <spyre/options.hpp>
#include <vector>

namespace spyre::inline v0 {

// Cheap to copy; copies share the loaded binary.
class SPYRE_API Job {
 public:
  // The standard job of a compiled kernel: correction on the host, its transfer, the computation. Throws InvalidPlan.
  explicit Job(const CompiledKernel& kernel);
  // The same of a binary (docs/spyrecode.md), which is a kernel with its shapes. Throws InvalidPlan, also for a file
  // that cannot be read; its field is the path.
  explicit Job(const std::filesystem::path& binary);

  // Moves `size` bytes (1 and up) between host memory of any kind and an allocation; `offset` is in the allocation, a
  // multiple of 128. Host memory belongs to the launch until the stream is synchronised. Pinned memory
  // (spyre/host_memory.hpp) is moved directly, other memory is staged. The bytes are in device layout.
  static Job to_device(const void* host, AllocationIndex destination, std::uint64_t size, std::uint64_t offset = 0);
  static Job from_device(void* host, AllocationIndex source, std::uint64_t size, std::uint64_t offset = 0);
  // Writes a 64-bit pattern over `size` bytes.
  static Job fill(AllocationIndex destination, std::uint64_t size, std::uint64_t pattern, std::uint64_t offset = 0);

  std::shared_ptr<const Kernel> binary() const;  // null: a transfer
  // Context::load() has placed the binary, and no reset of the function took it away; true for transfers.
  bool loaded() const;

 private:
  friend struct Inside;
  struct Impl;
  explicit Job(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// The ordered jobs of one compilation. Copies are plans of their own that share loaded binaries. Not thread-safe while
// it is changed or loaded. Context::load() loads it.
class SPYRE_API ExecutionPlan {
 public:
  ExecutionPlan();
  explicit ExecutionPlan(const std::vector<Job>& jobs);
  ExecutionPlan(const ExecutionPlan& other);
  ExecutionPlan(ExecutionPlan&& other) noexcept;
  ExecutionPlan& operator=(ExecutionPlan other) noexcept;
  ~ExecutionPlan();

  // The plan of a SpyreCode directory (docs/spyrecode.md), one job per ComputeOnDevice. A directory whose files have
  // not changed since is not read again. Throws InvalidPlan; its field is the member or the file that is wrong.
  static ExecutionPlan from_directory(const std::filesystem::path& directory);
  // Writes such a directory, made when it is not there; a plan that it holds is replaced. Throws InvalidPlan for a job
  // that no file can hold (transfers; with symbolic arguments also jobs of different corrections), Error naming the
  // path that cannot be written.
  void write_directory(const std::filesystem::path& directory,
                       SymbolicArguments arguments = SymbolicArguments::On) const;

  void add(const Job& job);
  // Throws InvalidArgument ("index"). Launches of the job go on.
  void remove(std::size_t index);
  std::vector<Job> jobs() const;
  std::size_t size() const;
  // Every job can be launched. False again after a reset of the function (docs/recovery.md): load the plan again.
  bool loaded() const;
  // Gives the plan's places in program memory up, without waiting: each is free when the last launch that uses it has
  // ended and no copy of the plan or of a job shares it. Its jobs cannot be launched until it is loaded again.
  void unload();

 private:
  friend struct Inside;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spyre::inline v0
