// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/execution_plan.hpp"

#include <algorithm>
#include <map>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/plan_cache.hpp"
#include "host_driver/runtime/plan_directory.hpp"
#include "host_driver/runtime/runtime.hpp"

namespace svp {

ExecutionPlan ExecutionPlan::from_directory(const std::filesystem::path& directory) {
  return ExecutionPlan(PlanCache::of_process().jobs(directory));
}

void ExecutionPlan::write_directory(const std::filesystem::path& directory, SymbolicArguments arguments) const {
  spyrecode::write_plan(directory, content_of(jobs_, arguments));
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

bool ExecutionPlan::needs_engine() const { return std::ranges::any_of(jobs_, &Job::needs_engine); }

void ExecutionPlan::set_engines(const std::shared_ptr<const Kernel>& engine) {
  for (Job& job : jobs_) {
    if (!job.needs_engine()) continue;
    if (engine == nullptr) {
      throw InvalidArgument("engine", "device program " + job.binary()->name() + " has no engine that executes it",
                            "load the plan by Context::load(), or make the job with Context::engine()");
    }
    job.set_engine(engine);
  }
}

namespace {

// Sends what each job brings; jobs with the same kernel have one place.
class PlanLoader {
 public:
  PlanLoader(Runtime& runtime, FlexStream& stream)
      : runtime_(runtime), stream_(stream), allocator_(runtime.shared_allocator()) {}

  void load(Job& job) {
    auto& program = sent_[job.binary().get()];
    if (program == nullptr) program = job.device_program() != nullptr ? send_program(job) : send_kernel(job);
    job.set_program(program);
  }

 private:
  std::shared_ptr<const LoadedProgram> kept(const Job& job) const {
    const auto& program = job.program();
    const bool keeps = program != nullptr && program->allocator() == allocator_ && program->on_card();
    return keeps ? program : nullptr;
  }

  std::shared_ptr<const LoadedProgram> send_kernel(const Job& job) {
    auto program = kept(job);
    if (program == nullptr) program = std::make_shared<const LoadedProgram>(allocator_, job.binary());
    send(job.binary()->image(), program->allocation_index(), program->offset(), job.binary());
    return program;
  }

  std::shared_ptr<const LoadedProgram> send_program(const Job& job) {
    auto program = kept(job);
    // A plan that is loaded already is loaded again to repair what is on the card.
    const bool again = program != nullptr;
    const auto engine = runtime_.engines().load(allocator_, job.binary()->engine(), stream_, again);
    std::shared_ptr<const PlacedTables> tables;
    if (job.device_program()->uses_tables()) tables = runtime_.engines().load_tables(allocator_, stream_, again);
    const auto tables_index = tables == nullptr ? AllocationIndex::Null : tables->allocation_index();
    if (!again || program->allocation_index() != engine->allocation_index() ||
        program->tables_index() != tables_index) {
      program = std::make_shared<const LoadedProgram>(allocator_, job.binary(), engine, tables);
    }
    send(job.device_program()->bytes(), program->program_index(), 0, job.device_program());
    return program;
  }

  void send(std::span<const std::byte> bytes, AllocationIndex to, std::uint64_t offset,
            std::shared_ptr<const void> keep_alive) {
    stream_.Launch(Job::to_device(bytes.data(), to, bytes.size(), offset), {}, {.keep_alive = std::move(keep_alive)});
  }

  Runtime& runtime_;
  FlexStream& stream_;
  const std::shared_ptr<FlexAllocator>& allocator_;
  std::map<const Kernel*, std::shared_ptr<const LoadedProgram>> sent_;
};

}  // namespace

void ExecutionPlan::load(Runtime& runtime, FlexStream& stream, const std::shared_ptr<const Kernel>& engine) {
  stream.refuse_in_capture("the loading of a plan");
  set_engines(engine);
  PlanLoader loader(runtime, stream);
  for (Job& job : jobs_) {
    if (job.binary() != nullptr) loader.load(job);
  }
}

}  // namespace svp
