// SPDX-License-Identifier: Apache-2.0
// The names of the first RFC ("Program Execution Pipeline", before streams) over the types that followed it, for code
// that was written against it. New code uses ExecutionPlan, SpyreStream and Context. Not part of <spyre/spyre.hpp>.
//
//   SpyreCompute                      CompiledKernel
//   Instruction                       Job: a computation with its correction
//   Program                           ExecutionPlan, with the context that it runs in
//   Program::Launch                   LaunchKernel without tiled launch, then Synchronize
//   Program::LaunchTiled              LaunchKernel with tiled launch, then Synchronize
//   DMAEngine::Copy(Program)          Context::load
//   DMAEngine::Copy(CPUTensor)        Context::to_device, copy_to_device
//   DMAEngine::Copy(SpyreTensor)      Context::to_host
//
// A `location_in_segment` is chosen by the allocator: a tensor, or a loaded program, is its location. All of it is in
// this header, over the API of libspyre.so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <spyre/context.hpp>
#include <spyre/data_type.hpp>
#include <spyre/error.hpp>
#include <spyre/job.hpp>
#include <spyre/kernel.hpp>
#include <spyre/stream.hpp>
#include <spyre/tensor.hpp>
#include <vector>

namespace spyre::inline v0 {

using SpyreCompute = CompiledKernel;

// What has to happen before a computation. A job corrects its kernel by itself: to name it changes nothing.
enum class PreProcessCompute : std::uint8_t { ProgramCorrection };

// Copies are the same instruction. Immutable.
class Instruction {
 public:
  // Throw InvalidPlan.
  explicit Instruction(const SpyreCompute& compute) : Instruction(Job(compute)) {}
  Instruction(const SpyreCompute& compute, std::span<const PreProcessCompute>) : Instruction(compute) {}
  explicit Instruction(const Job& job) : job_(std::make_shared<const Job>(job)) {}

  const Job& job() const { return *job_; }
  friend bool operator==(const Instruction&, const Instruction&) = default;  // the same one

 private:
  std::shared_ptr<const Job> job_;
};

// Not thread-safe. Does not outlive its context.
class Program {
 public:
  explicit Program(Context& context) : context_(&context) {}
  Program(Context& context, const ExecutionPlan& plan) : context_(&context) {
    for (const Job& job : plan.jobs()) AddInstruction(Instruction(job));
  }

  void AddInstruction(const Instruction& instruction) {
    plan_.add(instruction.job());
    instructions_.push_back(instruction);
  }
  // The first one that is the same. Throws InvalidArgument ("instruction"): it is not in the program.
  void RemoveInstruction(const Instruction& instruction) {
    const auto found = std::find(instructions_.begin(), instructions_.end(), instruction);
    if (found == instructions_.end()) {
      throw InvalidArgument("instruction", "the program has no such instruction", "remove one that was added");
    }
    plan_.remove(static_cast<std::size_t>(found - instructions_.begin()));
    instructions_.erase(found);
  }
  std::size_t size() const { return instructions_.size(); }
  const ExecutionPlan& plan() const { return plan_; }

  // Loads the program when it is not on the card, runs it on the default stream, and waits for its end. Every
  // instruction gets all tensors. Shapes and strides have to be the compiled ones, exactly. Throws
  // TiledLaunchNotAllowed when they are not, and what Context::load(), SpyreStream::Launch() and Synchronize() throw.
  void Launch(std::span<const SpyreTensor> tensors) { run(tensors, false); }
  // The same for tensors of other shapes: the kernel runs tile by tile (docs/tiling.md).
  void LaunchTiled(std::span<const SpyreTensor> tensors) { run(tensors, true); }

 private:
  friend class DMAEngine;

  void load() {
    if (!plan_.loaded()) context_->load(plan_);
  }
  void run(std::span<const SpyreTensor> tensors, bool tiled) {
    load();
    std::vector<std::span<const SpyreTensor>> of_job;
    for (const Instruction& instruction : instructions_) {
      of_job.push_back(instruction.job().binary() != nullptr ? tensors : std::span<const SpyreTensor>{});
    }
    LaunchOptions options;
    options.allow_tiled_launch = tiled;
    SpyreStream stream = context_->default_stream();
    LaunchKernel(stream, plan_, of_job, options);
    stream.Synchronize();
  }

  Context* context_;
  ExecutionPlan plan_;
  std::vector<Instruction> instructions_;
};

// Copies between host and card, on the default stream. Thread-safe. Does not outlive its context.
class DMAEngine {
 public:
  explicit DMAEngine(Context& context) : context_(&context) {}

  // Waits until the program is on the card. Throws as Context::load().
  void Copy(Program& program) { program.load(); }
  // To new memory of the card. Throws as Context::to_device().
  SpyreTensor Copy(const ConstHostTensor& source, std::optional<DeviceType> device_dtype = std::nullopt) {
    return context_->to_device(source, context_->default_stream(), device_dtype);
  }
  // To the memory of a tensor. Throws as Context::copy_to_device().
  void Copy(const ConstHostTensor& source, const SpyreTensor& location) {
    context_->copy_to_device(source, location, context_->default_stream());
  }
  // Waits for the bytes. Throws as Context::to_host().
  void Copy(const SpyreTensor& source, const HostTensor& location) {
    context_->to_host(source, location, context_->default_stream());
  }

 private:
  Context* context_;
};

}  // namespace spyre::inline v0
