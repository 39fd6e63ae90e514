// SPDX-License-Identifier: Apache-2.0
// ExecutionPlan (RFC): the ordered jobs of one compilation, the loading of their binaries, and plans on disk
// (docs/spyrecode.md). Passive: FlexStream executes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <spyre/options.hpp>
#include <utility>
#include <vector>

#include "host_driver/runtime/job.hpp"

namespace svp {

class FlexStream;
class Runtime;

using spyre::SymbolicArguments;

class ExecutionPlan {
 public:
  ExecutionPlan() = default;
  explicit ExecutionPlan(std::vector<Job> jobs) : jobs_(std::move(jobs)) {}

  // The plan of a SpyreCode directory, one job per ComputeOnDevice. A directory that has not changed is not read again
  // (PlanCache): the jobs share their images then. Throws InvalidPlan, whose message names the file and the member.
  static ExecutionPlan from_directory(const std::filesystem::path& directory);
  // Writes such a directory; an existing one gets this plan instead of its own. Throws InvalidPlan for a job that no
  // file can hold (transfers, host functions of the program; with symbolic arguments also jobs of different
  // corrections), Error naming the path that cannot be written.
  void write_directory(const std::filesystem::path& directory,
                       SymbolicArguments arguments = SymbolicArguments::On) const;

  void add(Job job) { jobs_.push_back(std::move(job)); }
  // Throws InvalidArgument ("index"): there is no such job. Launches of it go on.
  void remove(std::size_t index);
  std::span<const Job> jobs() const { return jobs_; }

  // Places each binary in Program memory (jobs with the same kernel share one place) and sends it on `stream`;
  // asynchronous, errors of the transfers are the stream's. Launches on other streams have to wait for it by
  // Synchronize. Again after a reset: sends every binary again, and places those anew whose memory went away with the
  // function. Device programs go to Tensor memory; `engine` is for those that were made without one, and is sent once
  // for all (EnginePlaces). Throws OutOfMemory; jobs before the one that did not fit stay loaded. Throws
  // InvalidArgument ("engine") when needs_engine() and there is none; nothing was sent then.
  void load(Runtime& runtime, FlexStream& stream, const std::shared_ptr<const Kernel>& engine = nullptr);
  // It has a device program that was made without an engine.
  bool needs_engine() const;
  // Gives the plan's places in Program memory up, without waiting: each is free when the last launch that uses it has
  // ended and no other plan or job shares it. A launch of the plan is refused until load().
  void unload();
  // Every job can be launched: false before load(), after unload(), and after a reset of the function.
  bool loaded() const;

 private:
  void set_engines(const std::shared_ptr<const Kernel>& engine);

  std::vector<Job> jobs_;
};

}  // namespace svp
