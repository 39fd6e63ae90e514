// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/execution_plan.hpp"

#include <algorithm>
#include <map>

#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/plan_cache.hpp"
#include "host_driver/runtime/plan_directory.hpp"
#include "host_driver/runtime/runtime.hpp"

namespace svp {

ExecutionPlan ExecutionPlan::from_directory(const std::filesystem::path& directory) {
  return ExecutionPlan(PlanCache::of_process().jobs(directory));
}

// spyrecode.json comes last: until then a reader has the directory of before.
void ExecutionPlan::write_directory(const std::filesystem::path& directory, SymbolicArguments arguments) const {
  const DirectoryContent content = content_of(jobs_, arguments);
  const std::string json = spyrecode::to_json(content.code);
  std::vector<spyrecode::NamedBytes> files;
  files.reserve(content.binaries.size() + 1);
  for (const auto& binary : content.binaries) files.push_back({binary.name, binary.bytes});
  files.push_back({spyrecode::kFileName, std::as_bytes(std::span(json))});
  spyrecode::write_files(directory, files);
}

void ExecutionPlan::remove(std::size_t index) {
  if (index >= jobs_.size()) {
    throw InvalidArgument(
        "index", "the plan has " + std::to_string(jobs_.size()) + " jobs, not " + std::to_string(index) + " and more",
        "count from 0");
  }
  jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(index));
}

void ExecutionPlan::unload() {
  for (Job& job : jobs_) job.set_program(nullptr);
}

bool ExecutionPlan::loaded() const { return std::ranges::all_of(jobs_, &Job::loaded); }

void ExecutionPlan::load(Runtime& runtime, FlexStream& stream) {
  stream.refuse_in_capture("the loading of a plan");
  const std::shared_ptr<FlexAllocator>& allocator = runtime.shared_allocator();
  std::map<const Kernel*, std::shared_ptr<const LoadedProgram>> sent;
  for (Job& job : jobs_) {
    if (job.binary() == nullptr) continue;
    auto& program = sent[job.binary().get()];
    if (program == nullptr) {
      program = job.program();
      const bool keeps = program != nullptr && program->allocator() == allocator && program->on_card();
      if (!keeps) program = std::make_shared<const LoadedProgram>(allocator, job.binary());
      const auto image = job.binary()->image();
      stream.Launch(Job::to_device(image.data(), program->allocation_index(), image.size(), program->offset()), {},
                    {.keep_alive = job.binary()});
    }
    job.set_program(program);
  }
}

}  // namespace svp
