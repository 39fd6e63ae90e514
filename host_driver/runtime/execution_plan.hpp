// SPDX-License-Identifier: Apache-2.0
// ExecutionPlan (RFC): the ordered jobs of one compilation, and the loading of their binaries. Passive: FlexStream
// executes.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "host_driver/runtime/job.hpp"

namespace svp {

class FlexStream;
class Runtime;

class ExecutionPlan {
 public:
  ExecutionPlan() = default;
  explicit ExecutionPlan(std::vector<Job> jobs) : jobs_(std::move(jobs)) {}

  void add(Job job) { jobs_.push_back(std::move(job)); }
  std::span<const Job> jobs() const { return jobs_; }

  // Places each binary in Program memory (jobs with the same kernel share one place) and sends it on `stream`;
  // asynchronous, errors of the transfers are the stream's. Launches on other streams have to wait for it by
  // Synchronize. Again after a reset: sends every binary again, and places those anew whose memory went away with the
  // function. Throws OutOfMemory; jobs before the one that did not fit stay loaded.
  void load(Runtime& runtime, FlexStream& stream);
  bool loaded() const;

 private:
  std::vector<Job> jobs_;
};

}  // namespace svp
