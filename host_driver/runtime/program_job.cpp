// SPDX-License-Identifier: Apache-2.0
// Jobs of device programs: the plan is that of any kernel, the operands are runs of sticks.
#include <algorithm>
#include <utility>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/launch_form.hpp"

namespace svp {
namespace {

// An argument that no operation touches has no bytes: it is given one stick, so that every operand has a place.
std::uint64_t sticks_of(std::uint64_t bytes) { return std::max<std::uint64_t>(bytes / wire::kStickBytes, 1); }

std::vector<std::uint64_t> operand_sticks(const DeviceProgram& program) {
  std::vector<std::uint64_t> sticks{sticks_of(program.bytes().size())};
  sticks.reserve(program.arguments().size() + 4);
  for (const wire::program::Argument& argument : program.arguments()) sticks.push_back(sticks_of(argument.bytes));
  if (program.uses_tables()) sticks.push_back(sticks_of(wire::program::kAllTablesBytes));
  if (program.workspace_bytes() != 0) sticks.push_back(sticks_of(program.workspace_bytes()));
  if (program.scratchpads_bytes() != 0) sticks.push_back(sticks_of(program.scratchpads_bytes()));
  return sticks;
}

Shape run_of(std::uint64_t sticks) {
  return {static_cast<std::int64_t>(sticks) * elements_per_stick(DeviceType::Dl16)};
}

std::shared_ptr<const LaunchForm> form_of(const DeviceProgram& program) {
  auto form = std::make_shared<LaunchForm>();
  for (const std::uint64_t sticks : operand_sticks(program)) {
    form->shape.push_back(run_of(sticks));
    form->geometry.push_back(StickGeometry::of(form->shape.back(), elements_per_stick(DeviceType::Dl16)));
    form->tiling.extent.push_back(form->shape.back()[0]);
    form->tiling.broadcast.push_back(0);
    form->tiling.partial_bytes.push_back(0);
  }
  return form;
}

std::shared_ptr<const DeviceProgram> not_null(std::shared_ptr<const DeviceProgram> program) {
  if (program == nullptr) throw InvalidArgument("program", "the job has no device program", "give one");
  return program;
}

}  // namespace

Job::Job(std::shared_ptr<const DeviceProgram> program, std::shared_ptr<const Kernel> engine, ProgramOptions options)
    : device_program_(not_null(std::move(program))) {
  binary_ = Kernel::of_program(device_program_, std::move(engine));
  program_form_ = form_of(*device_program_);
  make_program_plan(options);
}

void Job::set_engine(std::shared_ptr<const Kernel> engine) {
  binary_ = Kernel::of_program(device_program_, std::move(engine));
}

// As JobPlan::standard(). Which cores: one operation at a time is shared, so the largest one decides.
void Job::make_program_plan(const ProgramOptions& options) {
  const auto& shapes = program_form_->shape;
  correction_.symbols = binary_->metadata().symbols;
  correction_.max_bytes = wire::correction_bytes(static_cast<std::uint32_t>(correction_.symbols.size()));
  plan_ = JobPlan({HostOperation{}, CorrectionDMA{},
                   DeviceCompute{.expected_input_shapes = {shapes.begin(), shapes.end()},
                                 .core_mask = options.core_mask,
                                 .budget_slices = options.budget_slices}});
  extents_.reserve(shapes.size());
  for (const Shape& shape : shapes) extents_.push_back(shape[0]);
  worth_all_cores_ = device_program_->most_points() >= static_cast<std::uint64_t>(kPointsWorthAllCores);
}

}  // namespace svp
