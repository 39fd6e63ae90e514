// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/execution_plan.hpp"

#include <algorithm>
#include <map>

#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/runtime.hpp"

namespace svp {

bool ExecutionPlan::loaded() const {
  return std::all_of(jobs_.begin(), jobs_.end(),
                     [](const Job& job) { return job.binary() == nullptr || job.program() != nullptr; });
}

void ExecutionPlan::load(Runtime& runtime, FlexStream& stream) {
  const std::shared_ptr<FlexAllocator>& allocator = runtime.shared_allocator();
  std::map<const Kernel*, std::shared_ptr<const LoadedProgram>> sent;
  for (Job& job : jobs_) {
    if (job.binary() == nullptr) continue;
    auto& program = sent[job.binary().get()];
    if (program == nullptr) {
      program = job.program();
      const bool keeps = program != nullptr && program->allocator() == allocator &&
                         allocator->try_resolve(program->allocation_index()).has_value();
      if (!keeps) program = std::make_shared<const LoadedProgram>(allocator, job.binary());
      const auto image = job.binary()->image();
      stream.Launch(Job::to_device(image.data(), program->allocation_index(), image.size()), {},
                    {.keep_alive = job.binary()});
    }
    job.set_program(program);
  }
}

}  // namespace svp
